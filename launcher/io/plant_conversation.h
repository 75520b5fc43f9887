// The conversation with a host over whatever shell it was reached by: script, binary if it is not
// there, bootstrap line, and what the agent says until it was welcomed.
#pragma once

#include <functional>
#include <string>

#include "launcher/io/plant_failure.h"
#include "launcher/io/start_shell.h"
#include "launcher/launch/bootstrap.h"
#include "launcher/launch/start_script.h"

namespace dlaunch::launcher::io {

struct ConversationLimits {
  nanoseconds start{};  ///< until the agent runs, the copy included
  nanoseconds hello{};  ///< from then until it was welcomed
};

/// Returns when the agent was welcomed. `started` is called once, when its process runs.
[[nodiscard]] Planting<void> converse(StartShell& shell, const launch::StartScript& script,
                                      launch::Bootstrap bootstrap, ConversationLimits limits,
                                      const std::function<void()>& started);

}  // namespace dlaunch::launcher::io
