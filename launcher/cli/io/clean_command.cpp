// `dlaunch clean`: ends and removes what ended jobs left on their hosts.
#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/console.h"
#include "launcher/cli/io/job_directory.h"
#include "launcher/cli/io/state_root.h"
#include "launcher/config/io/read_file.h"
#include "launcher/config/resolved.h"
#include "launcher/io/open_shell.h"
#include "launcher/launch/clean_script.h"
#include "launcher/launch/user_text.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;
using supervisor::job::ExitCode;

// sshd's MaxStartups drops connections from 10 on, and all hosts may stand behind one server.
constexpr std::size_t kAtOnceMax = 8;
// SIGTERM, five seconds, SIGKILL and a removal per job; a full disk of logs takes a while.
constexpr nanoseconds kScriptLimit = 5min;
constexpr std::size_t kAnswerBytesMax = std::size_t{4} << 20;
constexpr std::size_t kJobBytesMax = std::size_t{16} << 20;

/// One machine and account, and all ended jobs that it was a host of.
struct Place {
  io::HostReach reach;
  nanoseconds connect_within{};
  launch::CleanScript script;
};
struct Cleaned {
  std::string host;
  launch::Leftovers leftovers;
  std::string error;  ///< empty: the host was looked at
};

io::HostReach reach_of(const config::HostSpec& host, const config::NetworkSpec& network) {
  io::HostReach reach;
  reach.name = host.name;
  reach.local = host.transport == config::Transport::local;
  reach.address = host.address.empty() ? host.name : host.address;
  if (host.port != 0) reach.port = static_cast<std::uint16_t>(host.port);
  reach.user = host.user;
  reach.identity = host.identity;
  reach.jump = host.jump;
  reach.accept_new_host_keys = network.host_keys == config::HostKeys::accept_new;
  reach.ssh = network.ssh;
  return reach;
}

std::string key_of(const io::HostReach& reach) {
  if (reach.local) return "local";
  return reach.user + "@" + reach.address + ":" + std::to_string(reach.port.value_or(0)) + " " +
         reach.jump;
}

class Collection {
 public:
  Collection(const CleanOptions& options) : options_(options) {}

  /// Jobs that are not over are left alone: their agents may still be needed.
  void take(const JobDirectory& job) {
    if (!read_end(job)) return;
    const auto path = job.path + "/job.toml";
    const auto text = config::read_config_file(path, kJobBytesMax);
    if (!text) return;  // it ended before anything was resolved, so that no host has anything
    const auto resolved = config::read_resolved(*text, path);
    const auto* known = std::get_if<config::Resolved>(&resolved);
    if (known == nullptr) {
      problems_.push_back(path + " cannot be read by this version of dlaunch");
      return;
    }
    for (const auto& host : known->hosts.hosts) add(job, host, known->hosts.network);
  }

  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }
  [[nodiscard]] std::vector<Place> places() const {
    std::vector<Place> all;
    for (const auto& [key, place] : places_) all.push_back(place);
    return all;
  }
  [[nodiscard]] std::vector<std::string> unknown_hosts() const {
    std::vector<std::string> unknown;
    for (const auto& name : options_.hosts) {
      if (!seen_.contains(name)) unknown.push_back(name);
    }
    return unknown;
  }

 private:
  void add(const JobDirectory& job, const config::HostSpec& host,
           const config::NetworkSpec& network) {
    seen_.insert(host.name);
    const bool wanted =
        options_.hosts.empty() ||
        std::find(options_.hosts.begin(), options_.hosts.end(), host.name) != options_.hosts.end();
    if (!wanted) return;
    const auto reach = reach_of(host, network);
    auto& place = places_[key_of(reach)];
    place.reach = reach;
    place.connect_within = network.connect_timeout;
    place.script.dry_run = options_.dry_run;
    place.script.targets.push_back({job.id, host.name, host.scratch});
  }

  const CleanOptions& options_;
  std::map<std::string, Place> places_;
  std::set<std::string> seen_;
  std::vector<std::string> problems_;
};

Cleaned clean(Place place, io::SshConfig& config) {
  Cleaned cleaned;
  cleaned.host = place.reach.local ? "this machine" : place.reach.name;
  auto where = io::where_of(place.reach);
  where.waited = place.connect_within;
  io::Interrupt interrupt;
  const auto failed = [&](const io::PlantFailure& failure) {
    where.detail = failure.detail;
    cleaned.error = launch::sentence(failure.cause, where);
    return cleaned;
  };
  auto shell = io::open_shell(place.reach, config, io::Deadline(place.connect_within), interrupt,
                              where, [](const std::string&) {});
  if (!shell) return failed(shell.error());
  const io::Deadline deadline(kScriptLimit);
  place.script.nonce = io::make_nonce();
  const auto written = (*shell)->write(launch::to_text(place.script), deadline);
  if (!written) return failed(written.error());
  std::string output;
  while (output.size() < kAnswerBytesMax) {
    const auto bytes = (*shell)->read(deadline);
    if (!bytes) return failed(bytes.error());
    if (bytes->empty()) break;
    output += *bytes;
  }
  cleaned.leftovers = launch::parse_leftovers(output, place.script.nonce);
  if (!cleaned.leftovers.complete) {
    cleaned.error = cleaned.host + ": the shell there ended early; it said: " + (*shell)->errors();
  }
  return cleaned;
}

/// In the order of `places`.
std::vector<Cleaned> clean_all(const std::vector<Place>& places) {
  std::vector<Cleaned> all(places.size());
  io::SshConfig config;
  std::mutex mutex;
  std::size_t next = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(kAtOnceMax, places.size()); ++i) {
    threads.emplace_back([&] {
      while (true) {
        std::size_t mine = 0;
        {
          const std::lock_guard lock(mutex);
          if (next == places.size()) return;
          mine = next++;
        }
        all[mine] = clean(places[mine], config);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return all;
}

json to_json(const Cleaned& cleaned) {
  auto processes = json::array(), directories = json::array();
  for (const auto& process : cleaned.leftovers.processes) {
    processes.push_back({{"pid", process.pid},
                         {"job", process.job},
                         {"command", process.command},
                         {"stays", process.stays}});
  }
  for (const auto& directory : cleaned.leftovers.directories) {
    directories.push_back(
        {{"path", directory.path}, {"kibibytes", directory.kibibytes}, {"stays", directory.stays}});
  }
  return {{"host", cleaned.host},
          {"processes", processes},
          {"directories", directories},
          {"error", cleaned.error}};
}

}  // namespace

int clean_hosts(const CleanOptions& options) {
  const auto root = state_root();
  if (!root) return complain(ExitCode::storage, root.error().text());
  const auto ids = job_ids(*root);
  if (!ids) return complain(ExitCode::storage, ids.error().text());
  Collection collection(options);
  for (const auto& id : *ids) collection.take({id, *root + "/" + id});
  for (const auto& problem : collection.problems()) (void)complain(0, problem);
  if (const auto unknown = collection.unknown_hosts(); !unknown.empty()) {
    return complain(ExitCode::usage, "no ended job of this user had a host " + unknown.front());
  }
  const auto all = clean_all(collection.places());
  bool unreachable = false;
  auto list = json::array();
  for (const auto& cleaned : all) {
    unreachable = unreachable || !cleaned.error.empty();
    if (options.json) {
      list.push_back(to_json(cleaned));
    } else if (cleaned.error.empty()) {
      (void)print(cleaned.host + ": " + launch::say_leftovers(cleaned.leftovers, options.dry_run) +
                  "\n");
    } else {
      (void)complain(0, cleaned.error);
    }
  }
  if (options.json) (void)print(list.dump() + "\n");
  if (!options.json && all.empty()) (void)print("no ended job of this user is known here\n");
  return unreachable ? supervisor::job::to_int(ExitCode::hosts_missing) : 0;
}

}  // namespace dlaunch::launcher::cli
