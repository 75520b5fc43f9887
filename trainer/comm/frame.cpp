#include "trainer/comm/frame.h"

#include "trainer/comm/byte_order.h"

namespace dlaunch::comm {
namespace {

// magic 4, kind 1, failure kind 1, zero 2, phase 4, group or suspect + 1 4, sequence 8, payload 8,
// total 8
constexpr std::uint32_t kMagic = 0x6d726664;  // "dfrm" in memory order
constexpr std::uint8_t kLeaving = 255;

}  // namespace

FrameBytes encode(const Frame& frame) {
  FrameBytes bytes{};
  put(std::span<std::byte>(bytes), 0, kMagic);
  put(std::span<std::byte>(bytes), 4, static_cast<std::uint8_t>(frame.operation));
  put(std::span<std::byte>(bytes), 8, frame.phase);
  put(std::span<std::byte>(bytes), 12, frame.group);
  put(std::span<std::byte>(bytes), 16, frame.sequence);
  put(std::span<std::byte>(bytes), 24, frame.payload);
  put(std::span<std::byte>(bytes), 32, frame.total);
  return bytes;
}

FrameBytes encode(const Leaving& leaving) {
  FrameBytes bytes{};
  put(std::span<std::byte>(bytes), 0, kMagic);
  put(std::span<std::byte>(bytes), 4, kLeaving);
  put(std::span<std::byte>(bytes), 5, static_cast<std::uint8_t>(leaving.kind));
  put(std::span<std::byte>(bytes), 12, leaving.suspect ? leaving.suspect->value + 1 : 0U);
  return bytes;
}

std::optional<Leaving> decode_leaving(std::span<const std::byte, kFrameBytes> bytes) {
  if (get<std::uint32_t>(bytes, 0) != kMagic) return std::nullopt;
  if (get<std::uint8_t>(bytes, 4) != kLeaving) return std::nullopt;
  const auto kind = get<std::uint8_t>(bytes, 5);
  if (kind > static_cast<std::uint8_t>(FailureKind::local)) return std::nullopt;
  Leaving leaving;
  leaving.kind = static_cast<FailureKind>(kind);
  const auto suspect = get<std::uint32_t>(bytes, 12);
  if (suspect != 0) leaving.suspect = Rank{suspect - 1};
  return leaving;
}

std::optional<Frame> decode_frame(std::span<const std::byte, kFrameBytes> bytes) {
  if (get<std::uint32_t>(bytes, 0) != kMagic) return std::nullopt;
  const auto operation = get<std::uint8_t>(bytes, 4);
  if (operation < static_cast<std::uint8_t>(Operation::all_reduce) ||
      operation > static_cast<std::uint8_t>(kLastOperation)) {
    return std::nullopt;
  }
  Frame frame;
  frame.operation = static_cast<Operation>(operation);
  frame.phase = get<std::uint32_t>(bytes, 8);
  frame.group = get<std::uint32_t>(bytes, 12);
  frame.sequence = get<std::uint64_t>(bytes, 16);
  frame.payload = get<std::uint64_t>(bytes, 24);
  frame.total = get<std::uint64_t>(bytes, 32);
  return frame;
}

std::string describe(const Frame& frame) {
  return std::string(name_of(frame.operation)) + " " + std::to_string(frame.sequence) + " of " +
         std::to_string(frame.total) + " bytes" +
         (frame.group == 0 ? "" : " in group " + std::to_string(frame.group));
}

}  // namespace dlaunch::comm
