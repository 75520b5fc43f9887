// The head of every message between two ranks: which operation, which part of it, how long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trainer/comm/failure.h"
#include "trainer/comm/recorder.h"

namespace dlaunch::comm {

constexpr std::size_t kFrameBytes = 40;

/// Both sides compute the frame that they expect, so that a rank in another operation is found at
/// its first bytes.
struct Frame {
  Operation operation{};
  std::uint32_t group = 0;  ///< its number
  std::uint32_t phase = 0;  ///< counts the exchanges within one operation
  std::uint64_t sequence = 0;
  std::uint64_t payload = 0;  ///< bytes that follow
  std::uint64_t total = 0;    ///< bytes of the whole operation
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// The last words of a rank that leaves, so that the others blame the right one.
struct Leaving {
  FailureKind kind{};
  std::optional<Rank> suspect;
};

using FrameBytes = std::array<std::byte, kFrameBytes>;

[[nodiscard]] FrameBytes encode(const Frame& frame);
[[nodiscard]] FrameBytes encode(const Leaving& leaving);

[[nodiscard]] std::optional<Leaving> decode_leaving(std::span<const std::byte, kFrameBytes> bytes);
/// nullopt: not a frame of this protocol.
[[nodiscard]] std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> bytes);

/// "all-reduce 812 of 4096 bytes", in a part of the mesh also "in group 2"
[[nodiscard]] std::string describe(const Frame& frame);

}  // namespace dlaunch::comm
