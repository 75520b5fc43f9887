#include "trainer/comm/io/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "trainer/comm/tree_sum.h"

namespace dlaunch::comm {
namespace {

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());  // neither call writes through it
  message.msg_iovlen = parts.size();
  return message;
}

Moved moved(ssize_t count) {
  if (count > 0) return static_cast<std::size_t>(count);
  if (count == 0) return tl::unexpected(0);
  if (would_block(errno)) return 0;
  return tl::unexpected(errno);
}

}  // namespace

Moved TcpLink::send(std::span<const iovec> parts) {
  const msghdr message = message_of(parts);
  return moved(::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

Moved TcpLink::receive(std::span<const iovec> parts) {
  msghdr message = message_of(parts);
  return moved(::recvmsg(fd(), &message, MSG_DONTWAIT));
}

Moved TcpLink::receive_adding(std::span<float> into) {
  if (bounce_.empty()) bounce_.resize(kBounceBytes);
  const std::size_t wanted = std::min(into.size_bytes(), bounce_.size()) - kept_;
  const auto count = moved(::recv(fd(), bounce_.data() + kept_, wanted, MSG_DONTWAIT));
  if (!count) return count;
  const std::size_t there = kept_ + *count;
  const std::size_t whole = there / sizeof(float) * sizeof(float);
  const std::span<const std::byte> values(bounce_);
  add_values(into.first(whole / sizeof(float)), values.first(whole));
  kept_ = there - whole;
  std::ranges::copy(values.subspan(whole, kept_), bounce_.begin());
  return whole;
}

Moved TcpLink::peek(std::span<std::byte> bytes) {
  return moved(::recv(fd(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT));
}

short TcpLink::events(Wants wants) const {
  short events = POLLRDHUP;
  if (wants.receive) events |= POLLIN;
  if (wants.send) events |= POLLOUT;
  return events;
}

}  // namespace dlaunch::comm
