#include "launcher/cli/io/job_directory.h"

#include <sys/stat.h>

#include "base/io/clock.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/io/state_root.h"
#include "launcher/cli/job_id.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/state_lock.h"

namespace dlaunch::launcher::cli {
namespace {

namespace control = launcher::controller;
constexpr milliseconds kAnswerLimit = 5s;

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

/// Made within the time that a keeper needs to come up.
bool is_young(const std::string& directory) {
  struct stat status {};
  return ::stat(directory.c_str(), &status) == 0 &&
         unix_now() - static_cast<double>(status.st_mtim.tv_sec) < 30;
}

Result<nlohmann::json> read_status_from_disk(const JobDirectory& job) {
  auto reader = control::RunReader::open(job.path);
  if (!reader) {
    // A start makes the directory first; what never got further has left nothing else.
    const bool begins = is_kept(job) || is_young(job.path);
    return bare_status(job, begins ? "starting" : "failed",
                       begins ? "" : "it never began: " + reader.error().text());
  }
  const auto row = reader->status();
  if (!row) return tl::unexpected(row.error());
  auto status = *row ? nlohmann::json::parse((*row)->json, nullptr, false) : nlohmann::json();
  if (!status.is_object()) {
    status = bare_status(job, "starting", "");
  }
  if (const auto end = read_end(job)) {
    if (!is_over(status.value("state", ""))) {
      status["state"] = end->code == 75 || end->code == 130 ? "stopped" : "failed";
    }
    if (status.value("reason", "").empty()) status["reason"] = end->sentence;
    return status;
  }
  const auto owner = reader->owner();
  const bool elsewhere = owner && owner->host != control::host_name();
  status["reason"] = elsewhere
                         ? "its controller runs on " + owner->host + "; this is its last state"
                         : "its controller is gone; this is the last it wrote. Go on with "
                           "`dlaunch resume " +
                               job.id + "`";
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

}  // namespace dlaunch::launcher::cli
