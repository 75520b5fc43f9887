#include "launcher/cli/io/job_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "base/io/clock.h"
#include "base/units.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/io/state_root.h"
#include "launcher/cli/job_id.h"
#include "launcher/controller/io/run_files.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/state_lock.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::cli {
namespace {

namespace control = launcher::controller;
constexpr double kNewSeconds = 30;

const char* state_of_end(int code) {
  using supervisor::job::ExitCode;
  if (code == to_int(ExitCode::finished)) return "finished";
  const bool stopped = code == to_int(ExitCode::stopped) || code == to_int(ExitCode::stopped_now);
  return stopped ? "stopped" : "failed";
}

/// Every key of schema 1, of a job that has not written anything yet.
nlohmann::json bare_status(const JobDirectory& job, const std::string& state,
                           const std::string& reason) {
  const auto none = nlohmann::json::array();
  return {{"schema", 1},
          {"job", name_of(job.id).value_or(job.id)},
          {"id", job.id},
          {"state", state},
          {"reason", reason},
          {"generation", 0},
          {"world_size", 0},
          {"step", nullptr},
          {"steps", nullptr},
          {"loss", nullptr},
          {"tokens_per_second", 0},
          {"checkpoint", {{"disk_step", nullptr}, {"memory_step", nullptr}, {"every", ""}}},
          {"hosts", none},
          {"ranks", none},
          {"incidents", none}};
}

/// Made within the time that a keeper needs to take its lock, which it does before the controller.
bool is_new(const std::string& directory) {
  struct stat status {};
  const auto lock = directory + "/" + control::kControllerLock;
  return ::stat(lock.c_str(), &status) != 0 && ::stat(directory.c_str(), &status) == 0 &&
         unix_now() - static_cast<double>(status.st_mtim.tv_sec) < kNewSeconds;
}

bool is_controlled(const JobDirectory& job) {
  return control::is_locked(job.path, control::kControllerLock);
}

struct Written {
  nlohmann::json status;
  std::string age;  ///< " 3 s ago", where it is known
};

/// From run.db, or from its copy where a living controller keeps run.db to itself.
Result<Written> read_written(const JobDirectory& job) {
  const auto snapshot = control::read_status_snapshot(job.path);
  const bool only_snapshot = snapshot && is_controlled(job);
  if (!only_snapshot) {
    auto reader = control::RunReader::open(job.path);
    if (!reader && !snapshot) return tl::unexpected(reader.error());
    if (reader) {
      const auto row = reader->status();
      if (!row) return tl::unexpected(row.error());
      if (!*row) return Written{bare_status(job, "starting", ""), ""};
      const auto age = std::max<std::int64_t>(0, std::llround(unix_now() - (*row)->time));
      return Written{nlohmann::json::parse((*row)->json, nullptr, false),
                     ", " + format_duration(seconds(age)) + " ago"};
    }
  }
  return Written{nlohmann::json::parse(*snapshot, nullptr, false), ""};
}

std::string why_from_disk(const JobDirectory& job, const std::string& age) {
  if (const auto elsewhere = lives_elsewhere(job)) {
    return *elsewhere + "; this is the last it wrote" + age;
  }
  if (is_controlled(job)) {
    return "its controller does not answer; this is the last it wrote" + age;
  }
  if (is_kept(job)) {
    return "its controller is gone and its keeper starts another; this is the last it wrote" + age;
  }
  const auto owner = control::lock_owner(job.path, control::kControllerLock);
  const bool here = !owner || owner->host == control::host_name();
  return "its controller " + (here ? "" : "(on " + owner->host + ") ") +
         "is gone; this is the last it wrote" + age + ". Go on with `dlaunch resume " + job.id +
         "`";
}

Result<nlohmann::json> read_status_from_disk(const JobDirectory& job) {
  auto written = read_written(job);
  if (!written) {
    // A start makes the directory first; what never got further has left nothing else.
    const bool begins = is_kept_or_new(job);
    return bare_status(job, begins ? "starting" : "failed",
                       begins ? "" : "it never began: " + written.error().text());
  }
  auto& status = written->status;
  if (!status.is_object()) status = bare_status(job, "starting", "");
  // The keeper needs a moment to follow its controller; the end is written before either goes.
  const bool ended = is_over(status.value("state", "")) || !is_kept(job);
  if (const auto end = ended ? read_end(job) : std::nullopt) {
    if (!is_over(status.value("state", ""))) status["state"] = state_of_end(end->code);
    if (status.value("reason", "").empty()) status["reason"] = end->sentence;
    return status;
  }
  status["reason"] = why_from_disk(job, written->age);
  if (const auto owner = control::lock_owner(job.path, control::kControllerLock)) {
    status["controller"] = {{"host", owner->host}, {"pid", owner->pid}};
  }
  return status;
}

}  // namespace

bool is_over(const std::string& state) {
  return state == "finished" || state == "stopped" || state == "failed";
}

Result<std::optional<JobDirectory>> find_job_directory(const std::string& wanted) {
  const auto root = state_root();
  if (!root) return tl::unexpected(root.error());
  const auto ids = job_ids(*root);
  if (!ids) return tl::unexpected(ids.error());
  const auto id = find_job(*ids, wanted);
  if (!id) return std::optional<JobDirectory>{};
  return std::optional(JobDirectory{*id, *root + "/" + *id});
}

Result<nlohmann::json> read_status(const JobDirectory& job) {
  auto answer = ask(job.path, {{"request", "status"}}, kAnswerLimit);
  if (answer && answer->contains("state")) return answer;
  return read_status_from_disk(job);
}

Result<std::string> read_state(const JobDirectory& job) {
  const auto answer = ask(job.path, {{"request", "state"}}, kAnswerLimit);
  if (answer && answer->contains("state")) return answer->value("state", "");
  const auto status = read_status_from_disk(job);
  if (!status) return tl::unexpected(status.error());
  return status->value("state", "");
}

std::optional<JobEnd> read_end(const JobDirectory& job) {
  auto reader = control::RunReader::open(job.path);
  if (!reader) return std::nullopt;
  const auto end = reader->end();
  if (!end || !*end) return std::nullopt;
  return JobEnd{(*end)->code, (*end)->sentence};
}

bool is_kept(const JobDirectory& job) {
  return control::is_locked(job.path, control::kKeeperLock) ||
         control::is_locked(job.path, control::kControllerLock);
}

bool is_kept_or_new(const JobDirectory& job) { return is_new(job.path) || is_kept(job); }

std::optional<std::string> lives_elsewhere(const JobDirectory& job) {
  if (!is_controlled(job)) return std::nullopt;
  const auto owner = control::lock_owner(job.path, control::kControllerLock);
  if (!owner || owner->host == control::host_name()) return std::nullopt;
  return "its controller runs on " + owner->host + " (pid " + std::to_string(owner->pid) + ")";
}

}  // namespace dlaunch::launcher::cli
