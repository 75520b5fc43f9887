// A micro-batch's tokens, cut out of the data.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/order.h"
#include "trainer/data/tokens.h"
#include "trainer/model/model.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Reused from micro-batch to micro-batch.
class BatchBuffer {
 public:
  explicit BatchBuffer(const TrainerSettings& settings);

  /// `data` are those that `order` was made for.
  void fill(const TokenView& data, const DataOrder& order, std::uint64_t step,
            std::uint32_t micro_batch);
  /// With a micro-batch of what is kept for validation.
  void fill_for_validation(const TokenView& data, const DataOrder& order,
                           std::uint32_t micro_batch);
  /// Valid until the next of these.
  [[nodiscard]] Batch view() const { return {sequences_, context_, inputs_, targets_}; }

 private:
  void copy_window(const TokenView& data, std::uint64_t first, std::uint32_t sequence);

  std::uint32_t sequences_;
  std::uint32_t context_;
  std::vector<std::int64_t> inputs_;
  std::vector<std::int64_t> targets_;
};

}  // namespace dlaunch::trainer
