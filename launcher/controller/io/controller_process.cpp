#include "launcher/controller/io/controller_process.h"

#include <fcntl.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <future>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/io/clock.h"
#include "base/io/descriptor_limit.h"
#include "base/io/file_descriptor.h"
#include "base/io/files.h"
#include "base/io/known_hashes.h"
#include "launcher/config/resolved.h"
#include "launcher/controller/io/controller_shell.h"
#include "launcher/controller/io/process_io.h"
#include "launcher/controller/io/state_lock.h"
#include "launcher/controller/setting.h"
#include "launcher/io/agent_binaries.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::controller {
namespace {

using supervisor::job::ExitCode;
using supervisor::job::to_int;

constexpr std::size_t kLogBytesMax = 16 * 1024 * 1024;
constexpr std::size_t kLogFilesMax = 3;
constexpr unsigned kRoomEverySeconds = 1;
constexpr nanoseconds kSshWithin = 5s;  // it may run commands of the user (Match exec)
constexpr std::uint64_t kOwnFileBytesMax = std::uint64_t{256} << 20U;  // a tenth of a second

/// Why the controller cannot begin, with the code that a user's script sees.
struct Refusal {
  int code = 0;
  std::string sentence;
};
template <class T>
using Begun = tl::expected<T, Refusal>;

tl::unexpected<Refusal> refuse(ExitCode code, std::string sentence) {
  return tl::unexpected<Refusal>(Refusal{to_int(code), std::move(sentence)});
}

Result<std::shared_ptr<spdlog::logger>> open_log(const std::string& directory) {
  try {
    auto log = spdlog::rotating_logger_mt("controller", directory + "/controller.log", kLogBytesMax,
                                          kLogFilesMax);
    log->flush_on(spdlog::level::info);
    return log;
  } catch (const spdlog::spdlog_ex& problem) {
    return failure(std::make_error_code(std::errc::io_error),
                   std::string("opening controller.log: ") + problem.what());
  }
}

/// On disk with mode 0600 when it returns.
Result<void> write_private_file(const std::string& path, const std::string& text, bool durable) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return failure_from_errno(errno, "making " + path);
  if (const auto written = write_all(file.get(), text); !written) {
    return failure(written.error().code, "writing " + path);
  }
  if (durable && ::fsync(file.get()) != 0) return failure_from_errno(errno, "writing " + path);
  return {};
}

std::string value_or_empty(const std::map<std::string, std::string>& values,
                           const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second;
}

/// The program as execvp would find it with this PATH, counted from `folder`; empty: not here.
std::string find_program(const std::string& name, const std::string& path_variable,
                         const std::string& folder) {
  if (name.find('$') != std::string::npos) return "";  // differs between ranks
  if (name.find('/') != std::string::npos) {
    return name.front() == '/' ? name : folder + "/" + name;
  }
  std::istringstream entries(path_variable);
  for (std::string entry; std::getline(entries, entry, ':');) {
    const auto path = (entry.empty() ? folder : entry) + "/" + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

/// The first host's settings are mostly those of all; they are there when it is dialled.
void ask_ssh_early(std::shared_ptr<io::SshConfig> ssh, const config::HostsFile& hosts) {
  for (const auto& host : hosts.hosts) {
    if (host.transport == config::Transport::local) continue;
    io::SshWish wish{host.address, {}, host.user, host.identity, host.jump};
    if (host.port != 0) wish.port = static_cast<std::uint16_t>(host.port);
    (void)ssh->read(wish, io::Deadline(kSshWithin));  // whoever dials asks again, and says why not
    return;
  }
}

std::string parent_of(const std::string& directory) {
  return std::filesystem::path(directory).parent_path().string();
}

/// What the hosts' files are compared with. Large ones are left to the hosts: they read theirs in
/// parallel, and this start would wait for ours.
std::map<std::string, Content> hash_own_files(const protocol::JobSpec& job,
                                              const std::string& store) {
  std::map<std::string, Content> own;
  KnownHashes known(store);
  for (const auto& check : job.checks()) {
    struct stat status {};
    if (!check.hash() || ::stat(check.path().c_str(), &status) != 0) continue;
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    auto hash = known.find(check.path(), status);
    if (!hash && bytes <= kOwnFileBytesMax) {
      const auto hashed = hash_file(check.path());
      if (!hashed) continue;
      hash = hashed->hash;
      known.add(check.path(), status, *hash, unix_now());
    }
    if (hash) own[check.path()] = {bytes, *hash};
  }
  known.save();
  return own;
}

/// A controller that is started again by its keeper waits for room on the disk: the agents train on
/// meanwhile. Whoever starts a job is told at once.
Begun<std::pair<RunStore, RunStart>> begin_run(const std::string& directory, int pulse,
                                               bool awaited, spdlog::logger& log) {
  while (true) {
    auto store = RunStore::open(directory);
    auto start = store ? store->begin({host_name(), boot_id(), ::getpid()})
                       : Result<RunStart>(tl::unexpected(store.error()));
    if (start) return std::pair{std::move(*store), std::move(*start)};
    const auto& code = start.error().code;
    const bool may_pass = code == std::errc::no_space_on_device || code == std::errc::io_error;
    if (awaited || !may_pass) return refuse(ExitCode::storage, start.error().text());
    log.warn("decisions wait: {}; make room or repair the file system", start.error().text());
    store = tl::unexpected(start.error());  // closed while it waits
    if (pulse >= 0 && ::write(pulse, "p", 1) < 0 && errno != EAGAIN) {
      return refuse(ExitCode::storage, start.error().text() + ", and the keeper is gone");
    }
    ::sleep(kRoomEverySeconds);
  }
}

/// `awaited`: somebody waits for the outcome.
Begun<std::unique_ptr<ControllerShell>> prepare(const std::string& directory, int pulse,
                                                bool awaited) {
  ShellParts parts;
  parts.directory = directory;
  parts.pulse = pulse;
  auto input = read_job_input(directory);
  if (!input) return refuse(ExitCode::bug, input.error().text());
  parts.input = std::move(*input);
  auto files = parse_files(parts.input);
  if (!files) return refuse(ExitCode::wrong_file, files.error().text());
  parts.files = std::move(*files);
  // Beside the disk's answers. What they find is read only after they have ended.
  auto found_agents = std::async(std::launch::async, io::find_agents, parts.input.program_folder,
                                 parent_of(directory) + "/agent-hashes");
  auto found_addresses =
      std::async(std::launch::async, find_listen_addresses, std::cref(parts.files.hosts));
  parts.ssh = std::make_shared<io::SshConfig>();
  const auto asked =
      std::async(std::launch::async, ask_ssh_early, parts.ssh, std::cref(parts.files.hosts));
  const auto resolved = config::write_resolved({parts.files.hosts, parts.files.train});
  // For people; each start by one writes it anew, so that nobody waits for the disk.
  if (awaited) {
    if (auto kept = write_private_file(directory + "/job.toml", resolved, false); !kept) {
      return refuse(ExitCode::storage, kept.error().text());
    }
  }
  auto log = open_log(directory);
  if (!log) return refuse(ExitCode::storage, log.error().text());
  parts.log = *log;
  auto begun = begin_run(directory, pulse, awaited, *parts.log);
  if (!begun) return tl::unexpected(begun.error());
  auto& [store, start] = *begun;
  parts.start = start;

  Surroundings surroundings{start.incarnation, start.recovered, {}, start.resumed};
  if (parts.files.train.program) {
    surroundings.program_path = program_path(*parts.files.train.program, parts.input.environment);
  }
  auto setting = make_setting(parts.input, parts.files, std::move(surroundings));
  if (!setting) return refuse(ExitCode::wrong_file, setting.error().text());
  parts.setting = std::move(*setting);
  auto own_files = std::async(std::launch::async, hash_own_files, parts.setting.welcome.job(),
                              parent_of(directory) + "/hashes");
  auto agents = found_agents.get();
  if (!agents) return refuse(ExitCode::bug, agents.error().text());
  parts.agents = std::move(*agents);
  auto addresses = found_addresses.get();
  if (!addresses) return refuse(ExitCode::wrong_file, addresses.error().text());
  parts.addresses = std::move(*addresses);
  parts.setting.own_files = own_files.get();
  const auto peer_key = rendezvous::peer_key(parts.start.secret);
  parts.setting.welcome.set_peer_key(peer_key.data(), peer_key.size());
  if (!store.notice().empty()) parts.log->warn("{}", store.notice());
  auto shell = std::make_unique<ControllerShell>(std::move(parts), std::move(store));
  if (auto opened = shell->open(); !opened) {
    return refuse(ExitCode::wrong_file, opened.error().text());
  }
  return shell;
}

}  // namespace

int run_controller(const std::string& directory) {
  ::prctl(PR_SET_DUMPABLE, 0);  // the secret is in memory
  ::umask(0077);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  allow_many_descriptors();  // else the hosts beyond it wait in the kernel's queue
  forget_large_pages();
  auto report = take_descriptor(kReportVariable);
  const auto pulse = take_descriptor(kPulseVariable);
  if (pulse.is_open()) ::fcntl(pulse.get(), F_SETFL, O_NONBLOCK);
  const auto answer = [&report](const StartReport& content) {
    if (report.is_open()) write_report(report.get(), content);
    report.reset();
  };
  auto lock = StateLock::take(directory, kControllerLock);
  if (!lock) {
    answer({to_int(ExitCode::usage), "this job has a controller already: " + lock.error().text()});
    return to_int(ExitCode::usage);
  }
  auto shell = prepare(directory, pulse.get(), report.is_open());
  if (!shell) {
    const auto& refusal = shell.error();
    (void)write_end_if_missing(directory, {refusal.code, refusal.sentence, unix_now()});
    answer({refusal.code, refusal.sentence});
    return refusal.code;
  }
  answer({});
  return (*shell)->run();
}

Result<void> write_job_input(const std::string& directory, const JobInput& input) {
  return write_private_file(directory + "/" + kJobInputFile, to_json(input), true);
}

Result<JobInput> read_job_input(const std::string& directory) {
  const auto path = directory + "/" + kJobInputFile;
  const auto text = read_file(path, kJobInputBytesMax + 1);
  if (!text) return tl::unexpected(text.error());
  return job_input_from_json(*text);
}

std::string program_path(const config::ProgramSection& program,
                         const std::map<std::string, std::string>& inherited) {
  if (program.command.empty() || !program.wrap.empty()) return "";
  const auto own = program.environment.find("PATH");
  return find_program(
      program.command.front(),
      own != program.environment.end() ? own->second : value_or_empty(inherited, "PATH"),
      program.directory);
}

}  // namespace dlaunch::launcher::controller
