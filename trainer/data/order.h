// Which part of the text is which sequence of which step: a pure function, the same for any rank.
#pragma once

#include <cstdint>

namespace dlaunch::trainer {

/// The text cut into windows of `context` tokens (each followed by one more, the last target),
/// dealt in a new order in each pass over the text. Knows nothing of ranks.
class DataOrder {
 public:
  /// `text_bytes` must be more than `context`.
  DataOrder(std::uint64_t seed, std::uint64_t text_bytes, std::uint32_t context,
            std::uint32_t logical_batches, std::uint32_t micro_batch);

  /// First byte of the window of one sequence. `step`: optimizer steps taken before it.
  [[nodiscard]] std::uint64_t first_byte(std::uint64_t step, std::uint32_t micro_batch,
                                         std::uint32_t sequence) const;
  [[nodiscard]] std::uint64_t windows() const { return windows_; }

 private:
  [[nodiscard]] std::uint64_t shuffled(std::uint64_t pass, std::uint64_t index) const;

  std::uint64_t seed_;
  std::uint64_t windows_;
  std::uint32_t context_;
  std::uint32_t logical_batches_;
  std::uint32_t micro_batch_;
  std::uint32_t half_bits_;  ///< of the smallest square of a power of two ≥ windows
};

}  // namespace dlaunch::trainer
