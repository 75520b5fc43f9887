// Where a controller's control socket is, and how to reach it.
#pragma once

#include <string>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::launcher::controller {

/// The directory of `control.sock`, for `control_socket_path`.
[[nodiscard]] Result<FileDescriptor> open_state_directory(const std::string& directory);
/// Fits into a socket's address however long the directory's own path is; good while `opened` is.
[[nodiscard]] std::string control_socket_path(const FileDescriptor& opened);

/// Never waits: a Unix socket answers at once.
[[nodiscard]] Result<FileDescriptor> connect_to_controller(const std::string& directory);

}  // namespace dlaunch::launcher::controller
