// The controller's process: `dlaunch __controller <state directory>`, started by its keeper.
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/controller/job_input.h"

namespace dlaunch::launcher::controller {

/// Until the job is over; returns its exit code. What keeps it from beginning is reported to
/// whoever started it and written as the job's end.
[[nodiscard]] int run_controller(const std::string& directory);

/// Writes what a controller reads at its start (0600), before `start_keeper`.
[[nodiscard]] Result<void> write_job_input(const std::string& directory, const JobInput& input);
[[nodiscard]] Result<JobInput> read_job_input(const std::string& directory);

/// The program as execvp would find it with this PATH, counted from `folder`; empty: not here.
[[nodiscard]] std::string find_program(const std::string& name, const std::string& path_variable,
                                       const std::string& folder);

}  // namespace dlaunch::launcher::controller
