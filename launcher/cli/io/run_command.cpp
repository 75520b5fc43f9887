// Starting and resuming jobs.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/io/clock.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/console.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/io/signals.h"
#include "launcher/cli/io/state_root.h"
#include "launcher/cli/io/viewer_loop.h"
#include "launcher/cli/job_id.h"
#include "launcher/cli/plan_view.h"
#include "launcher/config/io/read_file.h"
#include "launcher/config/resolved.h"
#include "launcher/controller/io/controller_process.h"
#include "launcher/controller/io/keeper.h"
#include "launcher/views/table.h"

namespace dlaunch::launcher::cli {
namespace {

namespace fs = std::filesystem;
namespace control = launcher::controller;
using supervisor::job::ExitCode;

constexpr milliseconds kLookEvery = 200ms;

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

std::string program_folder() {
  std::error_code code;
  return fs::read_symlink("/proc/self/exe", code).parent_path().string();
}

Result<control::JobInput> make_input(const RunOptions& options) {
  control::JobInput input;
  const auto train = config::read_config_file(options.train_file, config::kTrainBytesMax);
  if (!train) return tl::unexpected(train.error());
  input.train_text = *train;
  input.train.file = options.train_file;
  input.train.directory =
      fs::absolute(options.train_file).parent_path().lexically_normal().string();
  if (input.train.directory.size() > 1 && input.train.directory.back() == '/') {
    input.train.directory.pop_back();
  }
  const char* home = std::getenv("HOME");
  input.train.home = home == nullptr ? "" : home;
  input.train.set = options.set;
  if (!options.hostfile.empty()) {
    const auto hosts = config::read_config_file(options.hostfile, config::kConfigBytesMax);
    if (!hosts) return tl::unexpected(hosts.error());
    input.hosts_text = *hosts;
    input.hosts_file = options.hostfile;
  }
  input.environment = own_environment();
  if (options.from == "slurm") {
    for (const auto& [name, value] : input.environment) {
      if (name.starts_with("SLURM_")) input.allocation[name] = value;
    }
    if (input.allocation.empty()) input.allocation["SLURM_JOB_NODELIST"] = "";
  }
  input.program_folder = program_folder();
  input.fresh = options.fresh;
  return input;
}

struct StartOptions {
  bool detach = false;
  bool attached = false;
  bool verbose = false;
};

int print_started(const JobDirectory& job) {
  std::printf("%s %s\n", name_of(job.id).value_or(job.id).c_str(), job.id.c_str());
  return to_int(ExitCode::finished);
}

int print_end(const JobDirectory& job, const JobEnd& end) {
  // It was quicker than we looked: it has run.
  if (end.code == to_int(ExitCode::finished)) return print_started(job);
  return complain(end.code, end.sentence);
}

/// What the watched controller says until the job runs or has ended; nullopt: the controller is
/// restarted, has ended, or a signal came.
std::optional<int> watch_until_running(const JobDirectory& job, Signals& signals,
                                       std::optional<int>& signal) {
  auto client = ControlClient::connect(job.path);
  if (!client || !client->send({{"request", "watch"}})) return std::nullopt;
  while (!(signal = signals.next())) {
    const auto line = client->receive(kLookEvery);
    if (!line && line.error().code == std::errc::timed_out) continue;
    if (!line) return std::nullopt;
    const auto type = line->value("type", "");
    if (type == "state" && line->value("state", "") == "running") return print_started(job);
    if (type == "ended") {
      return print_end(job, {line->value("code", to_int(ExitCode::bug)),
                             line->value("sentence", "the job has ended")});
    }
  }
  return std::nullopt;
}

int wait_until_running(const JobDirectory& job, Signals& signals) {
  std::optional<int> signal;
  while (true) {
    if (const auto code = watch_until_running(job, signals, signal)) return *code;
    if (!signal) signal = signals.next();
    if (signal) {
      const auto name = name_of(job.id).value_or(job.id);
      return complain(supervisor::job::from_program(0, *signal),
                      "the job goes on starting. Watch it: dlaunch attach " + name +
                          "; stop it: dlaunch stop " + name);
    }
    const bool kept = is_kept(job);  // asked first: what ends in between has written its end
    const auto end = kept ? std::nullopt : read_end(job);
    if (end) return print_end(job, *end);
    if (!kept) return complain(ExitCode::bug, "the controller and its keeper are gone");
    ::usleep(100'000);
  }
}

/// After a start that failed: every host that could not be had, with its cause.
void print_missing_hosts(const JobDirectory& job) {
  const auto status = read_status(job);
  if (!status || status->value("generation", 0) != 0) return;
  std::vector<std::vector<std::string>> rows{{"HOST", "CAUSE"}};
  for (const auto& host : status->value("hosts", nlohmann::json::array())) {
    const auto reason = host.value("reason", "");
    if (!reason.empty()) rows.push_back({host.value("name", ""), reason});
  }
  if (rows.size() > 1) std::fprintf(stderr, "\n%s", views::table(rows).c_str());
}

int watch_start(const JobDirectory& job, const StartOptions& options) {
  // Before there is anything that a signal could stop.
  auto signals = Signals::take();
  if (!signals) return complain(ExitCode::bug, signals.error().text());
  const auto report = control::start_keeper(job.path);
  if (!report) return complain(ExitCode::bug, report.error().text());
  if (report->code != 0) return complain(report->code, report->sentence);
  if (options.detach) return wait_until_running(job, *signals);
  const auto mode = options.attached ? ViewerMode::attached : ViewerMode::run;
  return view_job(job, mode, options.verbose, std::move(*signals));
}

int start(const JobDirectory& job, const StartOptions& options) {
  const int code = watch_start(job, options);
  if (code == to_int(ExitCode::wrong_file) || code == to_int(ExitCode::hosts_missing) ||
      code == to_int(ExitCode::ssh_key)) {
    print_missing_hosts(job);
  }
  return code;
}

}  // namespace

int run_job(const RunOptions& options) {
  auto input = make_input(options);
  if (!input) return complain(ExitCode::wrong_file, input.error().text());
  const auto files = control::parse_files(*input);
  if (!files) {
    std::fputs(files.error().text().c_str(), stderr);
    return to_int(ExitCode::wrong_file);
  }
  for (const auto& notice : files->train.notices)
    std::fprintf(stderr, "dlaunch: %s\n", notice.c_str());
  if (options.dry_run) {
    std::fputs(plan_text(files->hosts, files->train, options.json).c_str(), stdout);
    return 0;
  }
  if (files->train.program) {
    input->environment = config::inherited(input->environment, files->train.program->inherit);
  } else {
    input->environment.clear();
  }
  const auto root = state_root();
  if (!root) return complain(ExitCode::storage, root.error().text());
  input->id = new_job_id(files->train.job.name);
  const auto directory = make_state_directory(*root, input->id);
  if (!directory) return complain(ExitCode::storage, directory.error().text());
  if (const auto written = control::write_job_input(*directory, *input); !written) {
    return complain(ExitCode::storage, written.error().text());
  }
  return start({input->id, *directory}, {options.detach, options.attached, options.verbose});
}

int resume_job(const ResumeOptions& options) {
  const auto job = find_job_directory(options.job);
  if (!job) return complain(ExitCode::bug, job.error().text());
  if (!*job) {
    return complain(ExitCode::usage, options.job.empty()
                                         ? std::string(kNoJob) + " to resume"
                                         : "there is no job " + options.job + " to resume");
  }
  if (is_kept(**job)) {
    return complain(ExitCode::usage,
                    (*job)->id + " still runs; watch it with `dlaunch attach " + (*job)->id + "`");
  }
  if (const auto end = read_end(**job); end && end->code == 0) {
    return complain(ExitCode::usage, (*job)->id + " has finished; there is nothing to resume");
  }
  return start(**job, {options.detach, false, options.verbose});
}

int attach_job(const AttachOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  if (const auto elsewhere = lives_elsewhere(*job)) {
    return complain(1, *elsewhere + "; attach to it there");
  }
  auto signals = Signals::take();
  if (!signals) return complain(ExitCode::bug, signals.error().text());
  return view_job(*job, ViewerMode::attach, options.verbose, std::move(*signals));
}

}  // namespace dlaunch::launcher::cli
