#include "launcher/io/ssh_dial.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "launcher/io/resolve.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

constexpr std::size_t kErrorsKeptBytes = 300;

std::string words_for(int number) { return std::generic_category().message(number); }

/// The error number of a connect that has ended, or ETIMEDOUT.
int await_connect(int fd, const Deadline& deadline) {
  pollfd wait{fd, POLLOUT, 0};
  if (::poll(&wait, 1, deadline.left_milliseconds()) == 0) return ETIMEDOUT;
  int number = 0;
  socklen_t size = sizeof number;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
  return number;
}

/// The socket or the error number.
tl::expected<FileDescriptor, int> connect_to(const addrinfo& address, const Deadline& deadline,
                                             Interrupt& interrupt) {
  FileDescriptor socket(
      ::socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return tl::unexpected(errno);
  if (!interrupt.watch(socket.get())) return tl::unexpected(ECANCELED);
  int number = 0;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    number = errno == EINPROGRESS ? await_connect(socket.get(), deadline) : errno;
  }
  if (number != 0 || interrupt.interrupted()) {
    interrupt.forget();
    return tl::unexpected(interrupt.interrupted() ? ECANCELED : number);
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Cause cause_of(int number) {
  switch (number) {
    case ECONNREFUSED:
      return Cause::refused;
    case ECONNRESET:
      return Cause::closed_before_banner;
    case ECANCELED:
      return Cause::cancelled;
    default:
      return Cause::silent;
  }
}

Planting<FileDescriptor> connect_to_any(const addrinfo* list, const Deadline& deadline,
                                        Interrupt& interrupt) {
  int count = 0;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) ++count;
  int number = ETIMEDOUT;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next, --count) {
    // Each address gets its share of what is left, so that a dead one does not take it all.
    const Deadline share(deadline.left() / count);
    auto socket = connect_to(*each, share, interrupt);
    if (socket) return std::move(*socket);
    number = socket.error();
    if (number == ECANCELED) break;
  }
  return plant_failure(cause_of(number), words_for(number));
}

std::string last_errors(Child& proxy) {
  std::array<char, 1024> buffer{};
  ::fcntl(proxy.errors.get(), F_SETFL, O_NONBLOCK);
  std::string text;
  ssize_t count = 0;
  while ((count = ::read(proxy.errors.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kErrorsKeptBytes) text.erase(0, text.size() - kErrorsKeptBytes);
  }
  for (char& letter : text) letter = letter == '\n' || letter == '\r' ? ' ' : letter;
  return text;
}

/// An SSH server speaks first; what it says is left for libssh.
Planting<void> await_banner(Dialled& dialled, const Deadline& deadline,
                            const Interrupt& interrupt) {
  const int fd = dialled.socket.get();
  pollfd wait{fd, POLLIN, 0};
  const int ready = ::poll(&wait, 1, deadline.left_milliseconds());
  if (interrupt.interrupted()) return plant_failure(Cause::cancelled, "");
  if (ready == 0) return plant_failure(Cause::silent, "it accepted the connection, no more");
  char first = 0;
  const ssize_t count = ::recv(fd, &first, 1, MSG_PEEK);
  if (count > 0) return {};
  std::string detail = count < 0 ? words_for(errno) : "";
  if (dialled.proxy) detail = last_errors(*dialled.proxy);
  return plant_failure(Cause::closed_before_banner, std::move(detail));
}

}  // namespace

bool Interrupt::watch(int fd) {
  const std::lock_guard lock(mutex_);
  if (interrupted_) return false;
  fd_ = fd;
  return true;
}

void Interrupt::forget() {
  const std::lock_guard lock(mutex_);
  fd_ = -1;
}

void Interrupt::interrupt() {
  const std::lock_guard lock(mutex_);
  interrupted_ = true;
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

Planting<Dialled> dial(const SshSettings& settings, const Deadline& deadline,
                       Interrupt& interrupt) {
  Dialled dialled;
  if (settings.proxy_command.empty()) {
    const auto addresses = resolve(settings.host_name, settings.port, deadline, interrupt);
    if (!addresses) return tl::unexpected(addresses.error());
    auto socket = connect_to_any(addresses->get(), deadline, interrupt);
    if (!socket) return tl::unexpected(socket.error());
    dialled.socket = std::move(*socket);
  } else {
    auto proxy = Child::start({"/bin/sh", "-c", settings.proxy_command}, Child::Wiring::one_socket);
    if (!proxy) return plant_failure(Cause::ssh_config, proxy.error().text());
    dialled.socket = std::move(proxy->input);
    dialled.proxy.emplace(std::move(*proxy));
    if (!interrupt.watch(dialled.socket.get())) return plant_failure(Cause::cancelled, "");
  }
  const auto banner = await_banner(dialled, deadline, interrupt);
  if (!banner) {
    interrupt.forget();
    return tl::unexpected(banner.error());
  }
  return dialled;
}

}  // namespace dlaunch::launcher::io
