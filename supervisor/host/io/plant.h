// `dlaunch-agent plant`: makes the job's directory, starts the holder, tells how it goes.
#pragma once

#include "supervisor/host/io/command_line.h"

namespace dlaunch::supervisor::host {

/// Reads the bootstrap from stdin, prints JSON lines, leaves once the agent is welcomed or failed.
/// Returns the exit code.
[[nodiscard]] int run_plant(const CommandLine& shown);

}  // namespace dlaunch::supervisor::host
