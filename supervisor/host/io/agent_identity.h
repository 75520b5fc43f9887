// Who this agent process is, and who holds it.
#pragma once

#include <sys/types.h>

#include "protocol/bootstrap.h"
#include "supervisor/host/agent.h"

namespace dlaunch::supervisor::host {

/// As its bootstrap says, on this boot of the host, with a number that no other process has.
[[nodiscard]] Identity identity_of(const protocol::Bootstrap& bootstrap);

/// The process that started this one; 0: it died before it could be seen, and its end will not be
/// told.
[[nodiscard]] pid_t find_holder(const protocol::Bootstrap& bootstrap);

}  // namespace dlaunch::supervisor::host
