// Which part of the data is which sequence of which step: a pure function, the same for any rank.
#pragma once

#include <cstdint>

#include "trainer/data/split.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Micro-batches of a validation for each of a step, at most. Without a backward pass that is about
/// 4/3 of a step, well within what the supervisor lets a step take.
constexpr std::uint32_t kValidationPerStep = 4;

/// The data cut into windows of `context` tokens (each followed by one more, the last target),
/// those for training dealt in a new order in each pass over them. Knows nothing of ranks.
class DataOrder {
 public:
  /// `tokens` must be more than the settings' `context`, and leave a window to train on.
  DataOrder(const TrainerSettings& settings, std::uint64_t tokens);

  /// First token of the window of one sequence. `step`: optimizer steps taken before it.
  [[nodiscard]] std::uint64_t first_token(std::uint64_t step, std::uint32_t micro_batch,
                                          std::uint32_t sequence) const;
  /// Windows that are trained on, and that are not.
  [[nodiscard]] std::uint64_t windows() const { return split_.training_windows(); }
  [[nodiscard]] std::uint64_t validation_windows() const { return split_.validation_windows(); }

  /// Micro-batches of a validation, always the same ones: all that there are or, if these are
  /// too many, some that are spread evenly.
  [[nodiscard]] std::uint32_t validation_batches() const;
  [[nodiscard]] std::uint64_t first_validation_token(std::uint32_t micro_batch,
                                                     std::uint32_t sequence) const;

 private:
  [[nodiscard]] std::uint64_t shuffled(std::uint64_t pass, std::uint64_t index) const;

  std::uint64_t seed_;
  std::uint32_t context_;
  std::uint32_t logical_batches_;
  std::uint32_t micro_batch_;
  DataSplit split_;
  std::uint32_t half_bits_;  ///< of the smallest square of a power of two ≥ windows
};

}  // namespace dlaunch::trainer
