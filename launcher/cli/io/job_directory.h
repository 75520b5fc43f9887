// Finds a job's state directory and asks its controller, or the disk when none lives.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>

#include "base/result.h"

namespace dlaunch::launcher::cli {

struct JobDirectory {
  std::string id;
  std::string path;
};

/// A job in this state, as status names it, changes no more.
[[nodiscard]] bool is_over(const std::string& state);

/// nullopt: this user has no job here, or none of that name or id.
[[nodiscard]] Result<std::optional<JobDirectory>> find_job_directory(const std::string& wanted);

/// The job as its controller knows it, else as it was last written; then `reason` says so.
[[nodiscard]] Result<nlohmann::json> read_status(const JobDirectory& job);
/// The same without hosts and ranks, for those who ask often.
[[nodiscard]] Result<std::string> read_state(const JobDirectory& job);

struct JobEnd {
  int code = 0;
  std::string sentence;
};
[[nodiscard]] std::optional<JobEnd> read_end(const JobDirectory& job);

/// The keeper, or a controller, holds its lock: the job is not over.
[[nodiscard]] bool is_kept(const JobDirectory& job);
/// Kept, or made a moment ago: its keeper is about to take the lock.
[[nodiscard]] bool is_kept_or_new(const JobDirectory& job);

/// "its controller runs on login2 (pid 42)", when it lives on another machine: only there it can be
/// asked. nullopt: it lives here, or not at all.
[[nodiscard]] std::optional<std::string> lives_elsewhere(const JobDirectory& job);

}  // namespace dlaunch::launcher::cli
