// Carries the frames of an agent that cannot dial back: bytes, unread, between the shell that
// planted it and the controller's own port.
#pragma once

#include <string>

#include "launcher/io/start_shell.h"
#include "protocol/bootstrap.h"

namespace dlaunch::launcher::io {

/// Returns when either side has ended or takes nothing more. `first` came over the shell already.
void pass_bytes(StartShell& shell, std::string first, const protocol::ControllerAddress& port);

}  // namespace dlaunch::launcher::io
