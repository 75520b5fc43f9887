#include "trainer/comm/io/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

namespace dlaunch::comm {
namespace {

/// Ranks of one mesh that dial at once; the kernel cuts it to its own limit.
constexpr int kBacklog = 4096;

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> numeric_address(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  if (::getaddrinfo(address.c_str(), service.c_str(), &hints, &found) != 0) {
    return failure(std::errc::invalid_argument,
                   "reading \"" + address + "\" as a numeric IPv4 or IPv6 address");
  }
  return Addresses(found, &::freeaddrinfo);
}

Result<FileDescriptor> open_socket(int family, const std::string& doing) {
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return failure_from_errno(errno, doing);
  return socket;
}

/// Losing this option costs time, not correctness, so its outcome is not looked at.
void send_at_once(int fd) {
  const int on = 1;
  static_cast<void>(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

}  // namespace

Result<FileDescriptor> listen_on(const std::string& address, std::uint16_t port) {
  const std::string doing = "listening on the data address " + address;
  const auto addresses = numeric_address(address, port);
  if (!addresses) return tl::unexpected(addresses.error());
  auto socket = open_socket((*addresses)->ai_family, doing);
  if (!socket) return socket;
  // The last generation's connections may linger on the port.
  const int on = 1;
  static_cast<void>(::setsockopt(socket->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  if (::bind(socket->get(), (*addresses)->ai_addr, (*addresses)->ai_addrlen) != 0 ||
      ::listen(socket->get(), kBacklog) != 0) {
    return failure_from_errno(errno, doing);
  }
  return socket;
}

Result<std::uint16_t> local_port(const FileDescriptor& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return failure_from_errno(errno, "asking a listener for its port");
  }
  // Both families keep the port at the same place, in network order.
  const auto* address = reinterpret_cast<const sockaddr_in*>(&storage);
  return ntohs(address->sin_port);
}

Result<FileDescriptor> start_connect(const std::string& address, std::uint16_t port) {
  const std::string doing = "connecting to " + address + " port " + std::to_string(port);
  const auto addresses = numeric_address(address, port);
  if (!addresses) return tl::unexpected(addresses.error());
  auto socket = open_socket((*addresses)->ai_family, doing);
  if (!socket) return socket;
  send_at_once(socket->get());
  if (::connect(socket->get(), (*addresses)->ai_addr, (*addresses)->ai_addrlen) != 0 &&
      errno != EINPROGRESS) {
    return failure_from_errno(errno, doing);
  }
  return socket;
}

Result<void> connect_outcome(const FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return failure_from_errno(error, "connecting");
  return {};
}

Result<FileDescriptor> accept_one(int listener) {
  FileDescriptor socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) {
    send_at_once(socket.get());
    return socket;
  }
  const bool nobody = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (nobody) return FileDescriptor();
  return failure_from_errno(errno, "accepting a connection of the mesh");
}

}  // namespace dlaunch::comm
