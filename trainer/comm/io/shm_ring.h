// Bytes from one process to another through memory that both see.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dlaunch::comm {

/// Lies in the shared memory, zeroed at first. Positions count all bytes ever and only grow; each
/// side writes its own line of the cache.
struct ShmRingHead {
  alignas(64) std::atomic<std::uint64_t> written;
  std::atomic<std::uint32_t> writer_waits;  ///< for room; the reader rings when it has made some
  alignas(64) std::atomic<std::uint64_t> read;
  std::atomic<std::uint32_t> reader_waits;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// One end of a ring, either the writing or the reading one.
class ShmRing {
 public:
  /// `bytes`: a power of two of them, the same on both sides. Both must outlive the ring.
  ShmRing(ShmRingHead& head, std::span<std::byte> bytes)
      : head_(&head), bytes_(bytes), mask_(bytes.size() - 1) {}

  /// Nothing that the two positions could be: the other side has written nonsense.
  [[nodiscard]] bool is_broken() const { return distance() > bytes_.size(); }
  [[nodiscard]] std::size_t readable() const { return std::min(distance(), bytes_.size()); }
  [[nodiscard]] std::size_t room() const { return bytes_.size() - readable(); }

  /// Writer: as much as there is room for.
  [[nodiscard]] std::size_t write(std::span<const iovec> parts);
  /// Reader: copies, adds, or only looks.
  [[nodiscard]] std::size_t read(std::span<const iovec> parts);
  [[nodiscard]] std::size_t read_adding(std::span<float> into);
  [[nodiscard]] std::size_t peek(std::span<std::byte> bytes) const;

  /// The other side has said that it waits: it wants to be woken, once.
  [[nodiscard]] bool take_waiting_reader() { return take(head_->reader_waits); }
  [[nodiscard]] bool take_waiting_writer() { return take(head_->writer_waits); }
  /// What is written or read by the other side afterwards finds the flag.
  void set_reader_waits(bool waits) { set(head_->reader_waits, waits); }
  void set_writer_waits(bool waits) { set(head_->writer_waits, waits); }

 private:
  [[nodiscard]] std::size_t distance() const;
  static bool take(std::atomic<std::uint32_t>& flag);
  static void set(std::atomic<std::uint32_t>& flag, bool waits);
  /// From `position` on, up to the end of the memory.
  [[nodiscard]] std::span<std::byte> straight(std::uint64_t position, std::size_t count) const;
  void copy_out(std::uint64_t position, std::span<std::byte> into) const;

  ShmRingHead* head_;
  std::span<std::byte> bytes_;
  std::uint64_t mask_;
};

}  // namespace dlaunch::comm
