#include "launcher/controller/io/controller_process.h"

#include <fcntl.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/io/clock.h"
#include "base/io/file_descriptor.h"
#include "base/io/files.h"
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
Result<void> write_private_file(const std::string& path, const std::string& text) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return failure_from_errno(errno, "making " + path);
  if (const auto written = write_all(file.get(), text); !written) {
    return failure(written.error().code, "writing " + path);
  }
  if (::fsync(file.get()) != 0) return failure_from_errno(errno, "writing " + path);
  return {};
}

std::string value_or_empty(const std::map<std::string, std::string>& values,
                           const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second;
}

Begun<std::unique_ptr<ControllerShell>> prepare(const std::string& directory, int pulse) {
  ShellParts parts;
  parts.directory = directory;
  parts.pulse = pulse;
  auto input = read_job_input(directory);
  if (!input) return refuse(ExitCode::bug, input.error().text());
  parts.input = std::move(*input);
  auto files = parse_files(parts.input);
  if (!files) return refuse(ExitCode::wrong_file, files.error().text());
  parts.files = std::move(*files);
  const auto resolved = config::write_resolved({parts.files.hosts, parts.files.train});
  if (auto kept = write_private_file(directory + "/job.toml", resolved); !kept) {
    return refuse(ExitCode::storage, kept.error().text());
  }
  auto store = RunStore::open(directory);
  if (!store) return refuse(ExitCode::storage, store.error().text());
  auto start = store->begin({host_name(), boot_id(), ::getpid()});
  if (!start) return refuse(ExitCode::storage, start.error().text());
  parts.start = *start;

  Surroundings surroundings{start->incarnation, start->recovered, {}, start->resumed};
  if (const auto& program = parts.files.train.program; program && !program->command.empty()) {
    surroundings.program_path =
        find_program(program->command.front(), value_or_empty(parts.input.environment, "PATH"),
                     program->directory);
  }
  auto setting = make_setting(parts.input, parts.files, std::move(surroundings));
  if (!setting) return refuse(ExitCode::wrong_file, setting.error().text());
  parts.setting = std::move(*setting);
  auto agents = io::find_agents(parts.input.program_folder);
  if (!agents) return refuse(ExitCode::bug, agents.error().text());
  parts.agents = std::move(*agents);
  auto addresses = find_listen_addresses(parts.files.hosts);
  if (!addresses) return refuse(ExitCode::wrong_file, addresses.error().text());
  parts.addresses = std::move(*addresses);
  auto log = open_log(directory);
  if (!log) return refuse(ExitCode::storage, log.error().text());
  parts.log = *log;
  auto shell = std::make_unique<ControllerShell>(std::move(parts), std::move(*store));
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
  auto shell = prepare(directory, pulse.get());
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
  return write_private_file(directory + "/" + kJobInputFile, to_json(input));
}

Result<JobInput> read_job_input(const std::string& directory) {
  const auto path = directory + "/" + kJobInputFile;
  const auto text = read_file(path, kJobInputBytesMax + 1);
  if (!text) return tl::unexpected(text.error());
  return job_input_from_json(*text);
}

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

}  // namespace dlaunch::launcher::controller
