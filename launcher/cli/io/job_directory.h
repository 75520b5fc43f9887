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

/// The job as both sources know it. Of a dead controller's job `reason` says so.
[[nodiscard]] Result<nlohmann::json> read_status(const JobDirectory& job);

struct JobEnd {
  int code = 0;
  std::string sentence;
};
[[nodiscard]] std::optional<JobEnd> read_end(const JobDirectory& job);

/// The keeper, or a controller, holds its lock: the job is not over.
[[nodiscard]] bool is_kept(const JobDirectory& job);

}  // namespace dlaunch::launcher::cli
