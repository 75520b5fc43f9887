// The few socket calls the mesh needs, as Results.
#pragma once

#include <cstdint>
#include <string>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::comm {

/// All sockets are nonblocking, closed on exec, and send small messages at once (TCP_NODELAY).
[[nodiscard]] Result<FileDescriptor> listen_on(const std::string& address, std::uint16_t port);
[[nodiscard]] Result<std::uint16_t> local_port(const FileDescriptor& socket);
/// Starts to connect; writable once it stands or failed (`connect_outcome`).
[[nodiscard]] Result<FileDescriptor> start_connect(const std::string& address, std::uint16_t port);
[[nodiscard]] Result<void> connect_outcome(const FileDescriptor& socket);
/// Not open: nobody is waiting.
[[nodiscard]] Result<FileDescriptor> accept_one(int listener);

}  // namespace dlaunch::comm
