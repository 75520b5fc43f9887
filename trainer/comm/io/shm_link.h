// A link within a host: two rings in shared memory; the socket wakes, and tells of the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trainer/comm/io/link.h"
#include "trainer/comm/io/shared_memory.h"
#include "trainer/comm/io/shm_ring.h"

namespace dlaunch::comm {

/// Random, in the memory's head: proves that the other side has opened this very memory.
using ShmNonce = std::array<std::byte, 32>;

/// Each of the two rings; smaller where many ranks share a host (`shm_ring_bytes`).
constexpr std::size_t kShmRingBytesMax = std::size_t{1} << 20;
constexpr std::size_t kShmRingBytesMin = std::size_t{64} << 10;
/// The rings to all other ranks of the host are together not larger, as long as the smallest fit.
constexpr std::size_t kShmBytesPerRank = std::size_t{16} << 20;
/// A power of two; `peers`: other ranks of this host.
[[nodiscard]] std::size_t shm_ring_bytes(std::size_t peers);

/// Of the two processes that share the memory, who is who.
enum class ShmSide { creator, opener };

class ShmLink final : public Link {
 public:
  /// Of the whole memory of a link.
  [[nodiscard]] static std::size_t memory_bytes(std::size_t ring_bytes);
  /// By its creator, before the other side may open it.
  static void prepare(const SharedMemory& memory, const ShmNonce& nonce);
  [[nodiscard]] static bool has_nonce(const SharedMemory& memory, const ShmNonce& nonce);

  ShmLink(FileDescriptor socket, std::string name, SharedMemory memory, std::size_t ring_bytes,
          ShmSide side);

  [[nodiscard]] Moved send(std::span<const iovec> parts) override;
  [[nodiscard]] Moved receive(std::span<const iovec> parts) override;
  [[nodiscard]] Moved receive_adding(std::span<float> into) override;
  [[nodiscard]] Moved peek(std::span<std::byte> bytes) override;
  [[nodiscard]] std::size_t turn_bytes() const override { return turn_bytes_; }

  void add_polls(Wants wants, std::vector<pollfd>& polls) const override;
  [[nodiscard]] bool can_move(Wants wants) const override;
  [[nodiscard]] bool begin_wait(Wants wants) override;
  void end_wait(short happened) override;
  [[nodiscard]] bool is_shared_memory() const override { return true; }

 private:
  /// `count` was read; the other side may wait for the room.
  [[nodiscard]] Moved after_reading(std::size_t count);
  void ring_the_bell() const;

  SharedMemory memory_;
  ShmRing out_, in_;
  std::size_t turn_bytes_;
  std::optional<int> gone_;  ///< the socket's end, as in Moved
};

}  // namespace dlaunch::comm
