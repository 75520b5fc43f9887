#include "launcher/io/tunnel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/io/file_descriptor.h"

namespace dlaunch::launcher::io {
namespace {

// Frames are beats most of the time; who does not take one for so long is gone.
constexpr nanoseconds kWriteWithin = 10s;
constexpr std::size_t kChunkBytes = std::size_t{32} << 10U;

/// Of this machine, so that it is answered at once.
FileDescriptor connect_to(const protocol::ControllerAddress& port) {
  sockaddr_storage storage{};
  socklen_t length = 0;
  auto* four = reinterpret_cast<sockaddr_in*>(&storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
  if (::inet_pton(AF_INET, port.address.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port.port);
    length = sizeof(*four);
  } else if (::inet_pton(AF_INET6, port.address.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port.port);
    length = sizeof(*six);
  }
  FileDescriptor socket(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) != 0) {
    return {};
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return socket;
}

bool send_all(int socket, std::string_view bytes) {
  const Deadline deadline(kWriteWithin);
  while (!bytes.empty()) {
    pollfd wait{socket, POLLOUT, 0};
    if (::poll(&wait, 1, deadline.left_milliseconds()) == 0) return false;
    const auto count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// All that is there. False: one side has ended.
bool pass_from(StartShell& shell, int socket) {
  while (true) {
    const auto bytes = shell.read(Deadline(0ns));
    if (!bytes) return bytes.error().cause == launch::Cause::silent;
    if (bytes->empty() || !send_all(socket, *bytes)) return false;
  }
}

bool pass_to(StartShell& shell, int socket) {
  std::array<char, kChunkBytes> bytes{};
  const auto count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  return count > 0 && shell.write(text, Deadline(kWriteWithin)).has_value();
}

}  // namespace

void pass_bytes(StartShell& shell, std::string first, const protocol::ControllerAddress& port) {
  const auto socket = connect_to(port);
  if (!socket.is_open() || !send_all(socket.get(), first)) return;
  // Writing to a shell may read what it says, so it is asked before anything is waited for.
  while (pass_from(shell, socket.get())) {
    std::array<pollfd, 2> waits{pollfd{shell.descriptor(), POLLIN, 0},
                                pollfd{socket.get(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[1].revents != 0 && !pass_to(shell, socket.get())) return;
  }
}

}  // namespace dlaunch::launcher::io
