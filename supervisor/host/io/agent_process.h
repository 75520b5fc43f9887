// The agent as a process: the pure machine, driven by real hands.
#pragma once

#include <functional>
#include <string>

#include "protocol/bootstrap.h"

namespace dlaunch::supervisor::host {

/// How the holder knows that the agent is not to be started again.
constexpr int kAgentOver = 0;

/// Runs on this thread until the agent leaves. `report` gets JSON lines for `plant` until the agent
/// is welcomed. Returns the process's exit code.
[[nodiscard]] int run_agent(const protocol::Bootstrap& bootstrap,
                            std::function<void(const std::string& line)> report);

}  // namespace dlaunch::supervisor::host
