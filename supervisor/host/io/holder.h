// The holder: starts its agent again when it dies, and at the end makes sure that nothing is left.
#pragma once

#include <csignal>
#include <string>

#include "base/time.h"
#include "protocol/bootstrap.h"

namespace dlaunch::supervisor::host {

/// Runs until the agent says that all is over, or died too often. `line` is the bootstrap as it
/// came; `report` is the descriptor on which the first agent reports to `plant`, or -1; `self` the
/// program to be executed as agent. Returns the process's exit code.
[[nodiscard]] int run_holder(const protocol::Bootstrap& bootstrap, const std::string& line,
                             int report, const std::string& self);

/// The descriptor numbers between plant, holder and agent; stdin carries the bootstrap.
constexpr int kReportDescriptor = 3;
constexpr int kLockDescriptor = 4;

/// The agent tells its holder that it is about to end; it then has kLeaveLimit.
constexpr int kLeavingSignal = SIGUSR1;
/// A sweep (5 s), the lock (1 s), the last frames and log lines (1 s); then SIGKILL.
constexpr nanoseconds kLeaveLimit = 10s;

}  // namespace dlaunch::supervisor::host
