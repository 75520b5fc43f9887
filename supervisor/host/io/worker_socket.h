// Where an agent's workers find it.
#pragma once

#include <string>

#include "base/ids.h"

namespace dlaunch::supervisor::host {

/// In `directory`, the agent's own; where that is too long for a socket's address, in /tmp, with
/// the directory's hash in its name.
[[nodiscard]] std::string worker_socket_path(const std::string& directory, Generation generation,
                                             Rank rank);
/// All sockets in `directory`, and those that belong to it elsewhere: what a killed agent left.
/// Nobody else may use `directory`.
void remove_sockets_of(const std::string& directory);

}  // namespace dlaunch::supervisor::host
