// The commands of the command line, carried out. Each returns the process's exit code.
#pragma once

#include "launcher/cli/options.h"

namespace dlaunch::launcher::cli {

[[nodiscard]] int run_job(const RunOptions& options);
[[nodiscard]] int resume_job(const ResumeOptions& options);
[[nodiscard]] int list_jobs(const ListOptions& options);
[[nodiscard]] int attach_job(const AttachOptions& options);
[[nodiscard]] int show_status(const StatusOptions& options);
[[nodiscard]] int show_logs(const LogsOptions& options);
[[nodiscard]] int show_events(const EventsOptions& options);
[[nodiscard]] int show_report(const ReportOptions& options);
[[nodiscard]] int stop_job(const StopOptions& options);
[[nodiscard]] int clean_hosts(const CleanOptions& options);
[[nodiscard]] int change_membership(const MembershipOptions& options);

}  // namespace dlaunch::launcher::cli
