// The agent's binaries beside dlaunch, one per architecture.
#pragma once

#include <string>
#include <vector>

#include "base/io/known_hashes.h"
#include "base/result.h"
#include "launcher/launch/start_script.h"

namespace dlaunch::launcher::io {

/// Size and hash of one binary.
[[nodiscard]] Result<launch::AgentBinary> read_agent(const std::string& path, std::string machine,
                                                     KnownHashes& known);

/// `folder`/dlaunch-agent for this machine's architecture, which must be there, and
/// `folder`/dlaunch-agent-<uname -m> for others. `store`: the file of known hashes.
[[nodiscard]] Result<std::vector<launch::AgentBinary>> find_agents(const std::string& folder,
                                                                   const std::string& store);

}  // namespace dlaunch::launcher::io
