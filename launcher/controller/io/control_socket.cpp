#include "launcher/controller/io/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

namespace dlaunch::launcher::controller {

Result<FileDescriptor> open_state_directory(const std::string& directory) {
  FileDescriptor opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open()) return failure_from_errno(errno, "opening " + directory);
  return opened;
}

std::string control_socket_path(const FileDescriptor& opened) {
  return "/proc/self/fd/" + std::to_string(opened.get()) + "/control.sock";
}

Result<FileDescriptor> connect_to_controller(const std::string& directory) {
  const auto opened = open_state_directory(directory);
  if (!opened) return tl::unexpected(opened.error());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return failure_from_errno(errno, "making a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = control_socket_path(*opened);
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const auto* plain = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), plain, sizeof(address)) != 0) {
    return failure_from_errno(errno, "connecting to " + directory + "/control.sock");
  }
  return socket;
}

}  // namespace dlaunch::launcher::controller
