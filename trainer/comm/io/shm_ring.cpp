#include "trainer/comm/io/shm_ring.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "trainer/comm/tree_sum.h"

namespace dlaunch::comm {

// Positions and flags are in one order for both sides (sequentially consistent): a side that stores
// its position and then looks at the flag, and one that sets the flag and then looks at the
// position, cannot both miss the other.

std::size_t ShmRing::distance() const { return head_->written.load() - head_->read.load(); }

std::span<std::byte> ShmRing::straight(std::uint64_t position, std::size_t count) const {
  const std::size_t at = position & mask_;
  return bytes_.subspan(at, std::min(count, bytes_.size() - at));
}

std::size_t ShmRing::write(std::span<const iovec> parts) {
  std::uint64_t position = head_->written.load(std::memory_order_relaxed);
  const std::uint64_t end = position + room();
  const std::uint64_t begin = position;
  for (const iovec& part : parts) {
    const auto* from = static_cast<const std::byte*>(part.iov_base);
    std::size_t left = std::min<std::size_t>(part.iov_len, end - position);
    while (left > 0) {
      const auto place = straight(position, left);
      std::memcpy(place.data(), from, place.size());
      from += place.size();
      left -= place.size();
      position += place.size();
    }
  }
  head_->written.store(position);
  return position - begin;
}

void ShmRing::copy_out(std::uint64_t position, std::span<std::byte> into) const {
  const auto first = straight(position, into.size());
  std::memcpy(into.data(), first.data(), first.size());
  if (first.size() == into.size()) return;
  std::memcpy(into.data() + first.size(), bytes_.data(), into.size() - first.size());
}

std::size_t ShmRing::read(std::span<const iovec> parts) {
  const std::uint64_t begin = head_->read.load(std::memory_order_relaxed);
  std::size_t left = readable();
  std::uint64_t position = begin;
  for (const iovec& part : parts) {
    const std::size_t count = std::min<std::size_t>(part.iov_len, left);
    if (count == 0) continue;
    copy_out(position, {static_cast<std::byte*>(part.iov_base), count});
    position += count;
    left -= count;
  }
  head_->read.store(position);
  return position - begin;
}

std::size_t ShmRing::read_adding(std::span<float> into) {
  const std::uint64_t begin = head_->read.load(std::memory_order_relaxed);
  const std::uint64_t end = begin + std::min(readable(), into.size_bytes()) / 4 * 4;
  std::uint64_t position = begin;
  while (position < end) {
    const auto place = straight(position, end - position);
    std::array<std::byte, sizeof(float)> across{};  // a value that lies across the memory's end
    std::span<const std::byte> values = place.first(place.size() / sizeof(float) * sizeof(float));
    if (values.empty()) {
      copy_out(position, across);
      values = across;
    }
    const std::size_t count = values.size() / sizeof(float);
    add_values(into.first(count), values);
    into = into.subspan(count);
    position += values.size();
  }
  head_->read.store(position);
  return position - begin;
}

std::size_t ShmRing::peek(std::span<std::byte> bytes) const {
  const std::size_t count = std::min(readable(), bytes.size());
  if (count > 0) copy_out(head_->read.load(std::memory_order_relaxed), bytes.first(count));
  return count;
}

bool ShmRing::take(std::atomic<std::uint32_t>& flag) {
  return flag.load() != 0 && flag.exchange(0) != 0;
}

void ShmRing::set(std::atomic<std::uint32_t>& flag, bool waits) { flag.store(waits ? 1 : 0); }

}  // namespace dlaunch::comm
