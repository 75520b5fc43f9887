// Starting and resuming jobs.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "base/io/clock.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/control_client.h"
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

constexpr int kUsage = 64, kWrongFile = 65, kHostsMissing = 69, kBug = 70, kGone = 70,
              kAuthentication = 77;

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

/// Waits until the controller says `running` or the job has ended.
int wait_until_running(const JobDirectory& job) {
  while (true) {
    auto client = ControlClient::connect(job.path);
    if (client && client->send({{"request", "watch"}})) {
      while (true) {
        const auto line = client->receive(std::chrono::hours(24));
        if (!line) break;  // the controller is restarted, or has ended
        const auto type = line->value("type", "");
        if (type == "state" && line->value("state", "") == "running") return 0;
        if (type == "ended") {
          return complain(line->value("code", kBug), line->value("sentence", "the job has ended"));
        }
      }
    }
    if (const auto end = read_end(job); end && !is_kept(job))
      return complain(end->code, end->sentence);
    if (!is_kept(job)) return complain(kGone, "the controller and its keeper are gone");
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

int watch_start(const JobDirectory& job, bool detach, bool attached) {
  const auto report = control::start_keeper(job.path);
  if (!report) return complain(kBug, report.error().text());
  if (report->code != 0) return complain(report->code, report->sentence);
  if (!detach) return view_job(job, attached ? ViewerMode::attached : ViewerMode::run);
  const int code = wait_until_running(job);
  if (code == 0) std::printf("%s %s\n", name_of(job.id).value_or(job.id).c_str(), job.id.c_str());
  return code;
}

int start(const JobDirectory& job, bool detach, bool attached) {
  const int code = watch_start(job, detach, attached);
  if (code == kWrongFile || code == kHostsMissing || code == kAuthentication) {
    print_missing_hosts(job);
  }
  return code;
}

}  // namespace

int complain(int code, const std::string& sentence) {
  std::fprintf(stderr, "dlaunch: %s\n", sentence.c_str());
  return code;
}

int run_job(const RunOptions& options) {
  auto input = make_input(options);
  if (!input) return complain(kWrongFile, input.error().text());
  const auto files = control::parse_files(*input);
  if (!files) {
    std::fputs(files.error().text().c_str(), stderr);
    return kWrongFile;
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
  if (!root) return complain(kBug, root.error().text());
  input->id = new_job_id(files->train.job.name);
  const auto directory = make_state_directory(*root, input->id);
  if (!directory) return complain(kBug, directory.error().text());
  if (const auto written = control::write_job_input(*directory, *input); !written) {
    return complain(kBug, written.error().text());
  }
  return start({input->id, *directory}, options.detach, options.attached);
}

int resume_job(const ResumeOptions& options) {
  const auto job = find_job_directory(options.job);
  if (!job) return complain(kBug, job.error().text());
  if (!*job) return complain(kUsage, "there is no job " + options.job + " to resume");
  if (is_kept(**job)) {
    return complain(kUsage,
                    (*job)->id + " still runs; watch it with `dlaunch attach " + (*job)->id + "`");
  }
  if (const auto end = read_end(**job); end && end->code == 0) {
    return complain(kUsage, (*job)->id + " has finished; there is nothing to resume");
  }
  return start(**job, options.detach, false);
}

int attach_job(const AttachOptions& options) {
  const auto job = find_job_directory(options.job);
  if (!job) return complain(kBug, job.error().text());
  if (!*job) return complain(kUsage, "there is no job " + options.job);
  return view_job(**job, ViewerMode::attach);
}

}  // namespace dlaunch::launcher::cli
