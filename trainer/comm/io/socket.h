// Owns one file descriptor; the few socket calls the mesh needs, as Results.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"

namespace dlaunch::comm {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  void close();
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// All sockets are nonblocking, closed on exec, and send small messages at once (TCP_NODELAY).
[[nodiscard]] Result<Socket> listen_on(const std::string& address, std::uint16_t port);
[[nodiscard]] Result<std::uint16_t> local_port(const Socket& socket);
/// Starts to connect; writable once it stands or failed (`connect_outcome`).
[[nodiscard]] Result<Socket> start_connect(const std::string& address, std::uint16_t port);
[[nodiscard]] Result<void> connect_outcome(const Socket& socket);
/// A closed Socket: nobody is waiting.
[[nodiscard]] Result<Socket> accept_one(int listener);

}  // namespace dlaunch::comm
