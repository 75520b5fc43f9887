// The keeper: the controller's parent, which starts it again when it dies or falls silent.
#pragma once

#include <string>

#include "base/result.h"
#include "base/time.h"
#include "launcher/controller/io/process_io.h"

namespace dlaunch::launcher::controller {

struct KeeperLimits {
  nanoseconds silence_max = 5s;  ///< without a pulse of the controller
  int restarts_max = 3;          ///< within `restarts_window`
  nanoseconds restarts_window = 60s;
};

/// `dlaunch __keeper <state directory>`: until the job is over; returns its exit code. SIGTERM asks
/// for a stop of the job (preempted).
[[nodiscard]] int run_keeper(const std::string& directory, const KeeperLimits& limits = {});

/// Starts a keeper in a session of its own, without a terminal, and waits until its controller is
/// up or says why not: the report's code is 0, or the job's exit code. `program` is executed as
/// `program __keeper <directory>`.
[[nodiscard]] Result<StartReport> start_keeper(const std::string& directory,
                                               const std::string& program = "/proc/self/exe");

}  // namespace dlaunch::launcher::controller
