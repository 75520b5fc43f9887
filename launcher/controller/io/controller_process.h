// The controller's process: `dlaunch __controller <state directory>`, started by its keeper.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "launcher/config/train_file.h"
#include "launcher/controller/job_input.h"

namespace dlaunch::launcher::controller {

/// Until the job is over; returns its exit code. What keeps it from beginning is reported to
/// whoever started it and written as the job's end.
[[nodiscard]] int run_controller(const std::string& directory);

/// Writes what a controller reads at its start (0600), before `start_keeper`.
[[nodiscard]] Result<void> write_job_input(const std::string& directory, const JobInput& input);
[[nodiscard]] Result<JobInput> read_job_input(const std::string& directory);

/// command[0] as execvp would find it with the program's PATH; empty: not here, or another one is
/// meant, because a wrapper runs it in a container.
[[nodiscard]] std::string program_path(const config::ProgramSection& program,
                                       const std::map<std::string, std::string>& inherited);

}  // namespace dlaunch::launcher::controller
