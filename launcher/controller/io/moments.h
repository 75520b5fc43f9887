// The moments of a controller's life at which a test may end it.
#pragma once

#include <string_view>

#include "launcher/controller/command.h"

namespace dlaunch::launcher::controller {

/// Before each command is carried out, and when rows of the journal are on disk and the machine
/// does not know it yet. Nothing in dlaunch itself: `tests/launcher/kill_points` links another
/// definition.
void moment_before(const Command& command);
void moment_on_disk(std::string_view kind);

}  // namespace dlaunch::launcher::controller
