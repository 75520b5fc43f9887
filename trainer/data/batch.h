// A micro-batch's tokens, cut out of the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/order.h"
#include "trainer/model/model.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Reused from micro-batch to micro-batch.
class BatchBuffer {
 public:
  explicit BatchBuffer(const TrainerSettings& settings);

  /// `text` is the one that `order` was made for.
  void fill(std::span<const std::byte> text, const DataOrder& order, std::uint64_t step,
            std::uint32_t micro_batch);
  /// Valid until the next `fill`.
  [[nodiscard]] Batch view() const { return {sequences_, context_, inputs_, targets_}; }

 private:
  std::uint32_t sequences_;
  std::uint32_t context_;
  std::vector<std::int64_t> inputs_;
  std::vector<std::int64_t> targets_;
};

}  // namespace dlaunch::trainer
