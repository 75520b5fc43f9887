// Watches a job until it ends or the viewer leaves it.
#pragma once

#include "launcher/cli/io/job_directory.h"
#include "launcher/cli/io/signals.h"
#include "launcher/cli/viewer.h"

namespace dlaunch::launcher::cli {

/// Returns the job's exit code, or that of a detached
/// viewer.
[[nodiscard]] int view_job(const JobDirectory& job, ViewerMode mode, bool verbose, Signals signals);

}  // namespace dlaunch::launcher::cli
