#include "trainer/comm/io/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

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
  // A connection that had ended before the others were taken over.
  if (errno == EBADF) return tl::unexpected(0);
  return tl::unexpected(errno);
}

}  // namespace

TcpLink::TcpLink(FileDescriptor first, std::string name, std::vector<FileDescriptor> others,
                 std::size_t stripe_bytes)
    : Link(std::move(first), std::move(name)),
      others_(std::move(others)),
      stripe_bytes_(stripe_bytes) {
  if (!others_.empty()) out_.left = in_.left = stripe_bytes_;
}

void TcpLink::move_on(Turn& turn, std::size_t bytes) const {
  turn.left -= bytes;
  if (turn.left > 0) return;
  turn = {(turn.connection + 1) % (others_.size() + 1), stripe_bytes_};
}

std::span<const iovec> TcpLink::within(const Turn& turn, std::span<const iovec> parts) {
  std::size_t left = turn.left;
  std::size_t whole = 0;
  while (whole < parts.size() && parts[whole].iov_len <= left) left -= parts[whole++].iov_len;
  if (whole == parts.size()) return parts;
  cut_.assign(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(whole));
  if (left > 0) cut_.push_back({parts[whole].iov_base, left});
  return cut_;
}

Moved TcpLink::send(std::span<const iovec> parts) {
  const msghdr message = message_of(within(out_, parts));
  const auto count = moved(::sendmsg(fd_of(out_), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
  if (count) move_on(out_, *count);
  return count;
}

Moved TcpLink::receive(std::span<const iovec> parts) {
  msghdr message = message_of(within(in_, parts));
  const auto count = moved(::recvmsg(fd_of(in_), &message, MSG_DONTWAIT));
  if (count) move_on(in_, *count);
  return count;
}

Moved TcpLink::receive_adding(std::span<float> into) {
  if (bounce_.empty()) bounce_.resize(kBounceBytes);
  const std::size_t wanted =
      std::min(std::min(into.size_bytes(), bounce_.size()) - kept_, in_.left);
  const auto count = moved(::recv(fd_of(in_), bounce_.data() + kept_, wanted, MSG_DONTWAIT));
  if (!count) return count;
  move_on(in_, *count);
  const std::size_t there = kept_ + *count;
  const std::size_t whole = there / sizeof(float) * sizeof(float);
  const std::span<const std::byte> values(bounce_);
  add_values(into.first(whole / sizeof(float)), values.first(whole));
  kept_ = there - whole;
  std::ranges::copy(values.subspan(whole, kept_), bounce_.begin());
  return whole;
}

Moved TcpLink::peek(std::span<std::byte> bytes) {
  Turn turn = in_;
  std::size_t seen = 0;
  // A connection's second turn lies behind its first, which stays.
  while (seen < bytes.size() && (seen == 0 || turn.connection != in_.connection)) {
    const std::size_t wanted = std::min(bytes.size() - seen, turn.left);
    const auto count =
        moved(::recv(fd_of(turn), bytes.data() + seen, wanted, MSG_PEEK | MSG_DONTWAIT));
    if (!count) return count;
    seen += *count;
    if (*count < wanted) break;
    move_on(turn, wanted);
  }
  return seen;
}

/// The other side's end is seen where its next bytes would come: what it said before comes first
/// there.
void TcpLink::add_polls(Wants wants, std::vector<pollfd>& polls) const {
  const int out = fd_of(out_);
  const int in = fd_of(in_) < 0 ? fd() : fd_of(in_);
  short events = POLLRDHUP;
  if (wants.receive) events |= POLLIN;
  if (wants.send && in == out) events |= POLLOUT;
  polls.push_back({in, events, 0});
  if (wants.send && in != out) polls.push_back({out, POLLOUT, 0});
}

}  // namespace dlaunch::comm
