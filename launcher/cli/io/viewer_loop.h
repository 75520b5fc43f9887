// Watches a job until it ends or the viewer leaves it.
#pragma once

#include "launcher/cli/io/job_directory.h"
#include "launcher/cli/viewer.h"

namespace dlaunch::launcher::cli {

/// Owns the terminal's signals meanwhile. Returns the job's exit code, or that of a detached
/// viewer.
[[nodiscard]] int view_job(const JobDirectory& job, ViewerMode mode);

}  // namespace dlaunch::launcher::cli
