// The agent's binaries beside dlaunch, one per architecture.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/launch/start_script.h"

namespace dlaunch::launcher::io {

/// Size and hash of one binary.
[[nodiscard]] Result<launch::AgentBinary> read_agent(const std::string& path, std::string machine);

/// `folder`/dlaunch-agent for this machine's architecture, which must be there, and
/// `folder`/dlaunch-agent-<uname -m> for others.
[[nodiscard]] Result<std::vector<launch::AgentBinary>> find_agents(const std::string& folder);

}  // namespace dlaunch::launcher::io
