// The conversation with a host over whatever shell it was reached by: script, binary if it is not
// there, bootstrap line, and what the agent says until it was welcomed.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/io/plant_failure.h"
#include "launcher/io/start_shell.h"
#include "launcher/launch/start_script.h"
#include "protocol/bootstrap.h"

namespace dlaunch::launcher::io {

struct ConversationLimits {
  nanoseconds start{};  ///< until the agent runs, the copy included
  nanoseconds hello{};  ///< from then until it was welcomed
};

struct ConversationReports {
  std::function<void()> started;                   ///< once, when the agent's process runs
  std::function<void(const std::string&)> notice;  ///< for the user
};

/// The agent's frames are to be carried over the shell from here on.
struct Tunnel {
  std::string first_bytes;  ///< that came already
};

/// Returns when the agent was welcomed, or with a Tunnel when it cannot reach the controller
/// itself.
[[nodiscard]] Planting<std::optional<Tunnel>> converse(StartShell& shell,
                                                       const launch::StartScript& script,
                                                       protocol::Bootstrap bootstrap,
                                                       ConversationLimits limits,
                                                       const ConversationReports& reports);

}  // namespace dlaunch::launcher::io
