#include "trainer/comm/io/shm_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace dlaunch::comm {
namespace {

/// At the memory's front; then the two rings' bytes, the creator's first.
struct Head {
  ShmNonce nonce;
  ShmRingHead from_creator;
  ShmRingHead from_opener;
};
constexpr std::size_t kHeadBytes = 4096;
static_assert(sizeof(Head) <= kHeadBytes);

Head& head_of(const SharedMemory& memory) {
  return *std::launder(reinterpret_cast<Head*>(memory.bytes().data()));
}

ShmRing ring_of(const SharedMemory& memory, std::size_t ring_bytes, bool from_creator) {
  DL_CHECK(memory.bytes().size() == ShmLink::memory_bytes(ring_bytes), "both rings fit exactly");
  Head& head = head_of(memory);
  return {from_creator ? head.from_creator : head.from_opener,
          memory.bytes().subspan(kHeadBytes + (from_creator ? 0 : ring_bytes), ring_bytes)};
}

}  // namespace

std::size_t shm_ring_bytes(std::size_t peers) {
  const std::size_t share = kShmBytesPerRank / (2 * std::max<std::size_t>(1, peers));
  return std::clamp(std::bit_floor(share), kShmRingBytesMin, kShmRingBytesMax);
}

std::size_t ShmLink::memory_bytes(std::size_t ring_bytes) { return kHeadBytes + 2 * ring_bytes; }

void ShmLink::prepare(const SharedMemory& memory, const ShmNonce& nonce) {
  auto* const head = new (memory.bytes().data()) Head{};
  head->nonce = nonce;
}

bool ShmLink::has_nonce(const SharedMemory& memory, const ShmNonce& nonce) {
  return head_of(memory).nonce == nonce;
}

ShmLink::ShmLink(FileDescriptor socket, std::string name, SharedMemory memory,
                 std::size_t ring_bytes, ShmSide side)
    : Link(std::move(socket), std::move(name)),
      memory_(std::move(memory)),
      out_(ring_of(memory_, ring_bytes, side == ShmSide::creator)),
      in_(ring_of(memory_, ring_bytes, side == ShmSide::opener)),
      // The other side begins to read while this one writes on.
      turn_bytes_(ring_bytes / 8) {}

Moved ShmLink::send(std::span<const iovec> parts) {
  if (out_.is_broken()) return tl::unexpected(EBADMSG);
  const std::size_t count = out_.write(parts);
  if (count > 0 && out_.take_waiting_reader()) ring_the_bell();
  if (count == 0 && gone_) return tl::unexpected(*gone_);
  return count;
}

Moved ShmLink::receive(std::span<const iovec> parts) {
  if (in_.is_broken()) return tl::unexpected(EBADMSG);
  return after_reading(in_.read(parts));
}

Moved ShmLink::receive_adding(std::span<float> into) {
  if (in_.is_broken()) return tl::unexpected(EBADMSG);
  return after_reading(in_.read_adding(into));
}

Moved ShmLink::after_reading(std::size_t count) {
  if (count > 0 && in_.take_waiting_writer()) ring_the_bell();
  // What was written before the end counts, as with any stream.
  if (count == 0 && gone_) return tl::unexpected(*gone_);
  return count;
}

Moved ShmLink::peek(std::span<std::byte> bytes) {
  const std::size_t count = in_.peek(bytes);
  if (count == 0 && gone_) return tl::unexpected(*gone_);
  return count;
}

void ShmLink::add_polls(Wants wants, std::vector<pollfd>& polls) const {
  const short events = wants.receive || wants.send ? POLLRDHUP | POLLIN : POLLRDHUP;
  polls.push_back({fd(), events, 0});
}

bool ShmLink::can_move(Wants wants) const {
  return (wants.receive && in_.readable() > 0) || (wants.send && out_.room() > 0);
}

bool ShmLink::begin_wait(Wants wants) {
  if (wants.receive) in_.set_reader_waits(true);
  if (wants.send) out_.set_writer_waits(true);
  return !can_move(wants);
}

void ShmLink::end_wait(short happened) {
  in_.set_reader_waits(false);
  out_.set_writer_waits(false);
  if (happened == 0) return;
  std::array<std::byte, 64> rings{};
  ssize_t count = 1;
  while (count > 0) count = ::recv(fd(), rings.data(), rings.size(), MSG_DONTWAIT);
  if (count == 0) gone_ = 0;
  if (count < 0 && errno != EAGAIN && errno != EINTR) gone_ = errno;
}

void ShmLink::ring_the_bell() const {
  const std::byte ring{};
  // If it cannot be sent, the other side is gone or has many to read: either wakes it.
  static_cast<void>(::send(fd(), &ring, sizeof ring, MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace dlaunch::comm
