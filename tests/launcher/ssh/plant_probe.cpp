// Plants an agent (or a script in its place) on hosts, with the launch and the planter as the
// controller joins them, and prints what came of each host as JSON lines. For tests/integration.
#include <CLI/CLI.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/io/agent_binaries.h"
#include "launcher/io/ssh_config.h"
#include "launcher/io/ssh_planter.h"
#include "launcher/launch/launch.h"

namespace dlaunch::launcher {
namespace {

using nlohmann::json;

constexpr nanoseconds kIdleLimit = 120s;  // a test that waits longer has failed

struct Settings {
  std::string agent;
  std::string machine;
  double connect_seconds = 10;
  double hello_seconds = 15;
  double cancel_after = 0;
  std::ptrdiff_t files_left = 0;  ///< a name lookup that hangs keeps its socket
  bool accept_new = false;
  bool until_ended = false;  ///< goes on until every host is present or failed for good
};

/// Outcomes of the pool, taken on the main thread.
class Inbox {
 public:
  void put(io::PlantOutcome outcome) {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back(std::move(outcome));
    changed_.notify_one();
  }
  std::optional<io::PlantOutcome> take(Instant until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [this] { return !outcomes_.empty(); });
    if (outcomes_.empty()) return std::nullopt;
    auto first = std::move(outcomes_.front());
    outcomes_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<io::PlantOutcome> outcomes_;
};

class Probe {
 public:
  Probe(const Settings& settings, const json& hosts, launch::Policy policy, io::Planter& planter)
      : settings_(settings),
        hosts_(hosts),
        rng_(std::random_device{}()),
        launch_(std::move(policy), rng_),
        planter_(planter) {}

  void run() {
    const Instant begun = now();
    begun_ = begun;
    step(launch::StartAll{});
    bool cancelled = settings_.cancel_after <= 0;
    while (open_.size() < hosts_.size() || !flying_.empty()) {
      Instant until = now() + kIdleLimit;
      if (const auto due = launch_.next_deadline()) until = std::min(until, *due);
      const Instant cancel_at =
          begun + nanoseconds(static_cast<std::int64_t>(settings_.cancel_after * 1e9));
      if (!cancelled) until = std::min(until, cancel_at);
      if (const auto outcome = inbox_.take(until)) {
        std::visit([this](const auto& each) { on(each); }, *outcome);
      } else {
        step(launch::DeadlineDue{});
      }
      if (!cancelled && now() >= cancel_at) {
        cancelled = true;
        step(launch::StopAll{});
        for (std::uint32_t id = 0; id < hosts_.size(); ++id) open_.insert(HostId{id});
      }
    }
  }

 private:
  static Instant now() { return std::chrono::steady_clock::now(); }

  void on(const io::PlantNotice& notice) {
    say(notice.host, {{"event", "notice"}, {"sentence", notice.sentence}});
  }
  void on(const launch::Planted& planted) {
    flying_.erase({planted.host, planted.attempt});
    // The controller sees the hello just before it welcomes.
    step(launch::HelloSeen{planted.host});
    step(planted);
  }
  void on(const launch::PlantFailed& failed) {
    flying_.erase({failed.host, failed.attempt});
    say(failed.host, {{"event", "attempt_failed"},
                      {"cause", launch::to_string(failed.cause)},
                      {"sentence", failed.sentence}});
    step(failed);
  }
  void on(const launch::PlantProgress& progress) {
    const bool connected = progress.stage == launch::Stage::connected;
    say(progress.host, {{"event", connected ? "connected" : "started"}});
    step(progress);
  }

  void step(const launch::Event& event) {
    for (const launch::Command& command : launch_.step(now(), event)) {
      std::visit([this](const auto& each) { carry_out(each); }, command);
    }
  }

  void carry_out(const launch::Plant& plant) {
    const json& host = hosts_.at(plant.host.value);
    io::PlantRequest request;
    request.host = plant.host;
    request.attempt = plant.attempt;
    request.name = host.at("name");
    request.local = host.value("local", false);
    request.address = host.value("address", request.name);
    if (host.contains("port")) request.port = host.at("port").get<std::uint16_t>();
    request.user = host.value("user", "");
    request.identity = host.value("identity", "");
    request.jump = host.value("jump", "");
    request.ssh = host.value("ssh", "auto");
    request.scratch = host.value("scratch", "");
    request.accept_new_host_keys = settings_.accept_new;
    request.connect_within = plant.connect_within;
    request.hello_within = nanoseconds(static_cast<std::int64_t>(settings_.hello_seconds * 1e9));
    request.bootstrap.job = "probe";
    request.bootstrap.host = request.name;
    request.bootstrap.host_id = plant.host;
    request.bootstrap.secret_hex = "00ff";
    request.bootstrap.lease = 60s;
    request.bootstrap.addresses = {{"192.0.2.1", 29600}};
    request.bootstrap.environment = {{"QUOTES", "a'b\"c\n$HOME"}};
    flying_.insert({plant.host, plant.attempt});
    planter_.plant(std::move(request),
                   [this](io::PlantOutcome outcome) { inbox_.put(std::move(outcome)); });
  }
  void carry_out(const launch::CancelPlant& cancel) { planter_.cancel(cancel.host); }
  void carry_out(const launch::HostPlanted& planted) {
    open_.insert(planted.host);
    say(planted.host, {{"event", "planted"}});
  }
  void carry_out(const launch::HostFailed& failed) {
    if (!settings_.until_ended || !failed.retried) open_.insert(failed.host);
    say(failed.host, {{"event", "failed"},
                      {"cause", launch::to_string(failed.cause)},
                      {"sentence", failed.sentence}});
  }

  void say(HostId host, json line) {
    line["host"] = hosts_.at(host.value).at("name");
    line["seconds"] = to_seconds(now() - begun_);
    std::cout << line.dump() << std::endl;
  }

  const Settings& settings_;
  const json& hosts_;
  Rng rng_;
  launch::Launch launch_;
  io::Planter& planter_;
  Inbox inbox_;
  std::set<HostId> open_;  ///< hosts with an answer
  std::set<std::pair<HostId, std::uint64_t>> flying_;
  Instant begun_{};
};

std::ptrdiff_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

int run(const Settings& settings) {
  const json hosts = json::parse(std::cin);
  launch::Policy policy;
  policy.connect_timeout = nanoseconds(static_cast<std::int64_t>(settings.connect_seconds * 1e9));
  for (const json& host : hosts) {
    const auto id = static_cast<std::uint32_t>(policy.hosts.size());
    const std::string name = host.at("name");
    policy.hosts.push_back({HostId{id}, name, host.value("endpoint", host.value("address", name))});
  }
  KnownHashes none("");
  const auto agent = io::read_agent(settings.agent, settings.machine, none);
  if (!agent) {
    std::cerr << agent.error().text() << "\n";
    return 1;
  }
  const auto open_before = open_files();
  io::Planter planter({*agent}, std::make_shared<io::SshConfig>());
  Probe(settings, hosts, std::move(policy), planter).run();
  if (open_files() - open_before > settings.files_left) {
    std::cerr << open_files() - open_before << " files were left open\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace dlaunch::launcher

int main(int argc, char** argv) {
  CLI::App app("plants hosts given as a JSON list on stdin");
  dlaunch::launcher::Settings settings;
  app.add_option("--agent", settings.agent)->required();
  app.add_option("--machine", settings.machine)->required();
  app.add_option("--connect-seconds", settings.connect_seconds);
  app.add_option("--hello-seconds", settings.hello_seconds);
  app.add_option("--cancel-after", settings.cancel_after);
  app.add_option("--files-left", settings.files_left);
  app.add_flag("--accept-new", settings.accept_new);
  app.add_flag("--until-ended", settings.until_ended);
  CLI11_PARSE(app, argc, argv);
  return dlaunch::launcher::run(settings);
}
