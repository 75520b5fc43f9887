// The holder: starts its agent again when it dies, and at the end makes sure that nothing is left.
#pragma once

#include <csignal>

#include "base/io/file_descriptor.h"
#include "base/time.h"
#include "protocol/bootstrap.h"
#include "supervisor/host/io/command_line.h"

namespace dlaunch::supervisor::host {

/// Runs until the agent says that all is over, or died too often. `report` is where the first agent
/// reports to `plant`. Returns the process's exit code.
[[nodiscard]] int run_holder(protocol::Bootstrap bootstrap, const CommandLine& shown,
                             FileDescriptor report);

/// The agent tells its holder that it is about to end; it then has kLeaveLimit.
constexpr int kLeavingSignal = SIGUSR1;
/// A sweep (5 s), the lock (1 s), the last frames and log lines (1 s); then SIGKILL.
constexpr nanoseconds kLeaveLimit = 10s;

}  // namespace dlaunch::supervisor::host
