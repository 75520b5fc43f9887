// DDP: every rank keeps the whole state and computes a block of the micro-batches.
#pragma once

#include "trainer/comm/lanes.h"
#include "trainer/parallel/engine.h"
#include "trainer/parallel/gradient_reducer.h"

namespace dlaunch::trainer {

class DataParallel final : public GradientEngine {
 public:
  explicit DataParallel(EngineHands hands);

  [[nodiscard]] EngineResult<void> compute(ExactSum& losses) override;
  [[nodiscard]] EngineResult<void> validate(std::uint32_t micro_batches, ExactSum& losses) override;
  [[nodiscard]] std::span<float> gradients() override { return reducer_.gradients(); }
  [[nodiscard]] bool counts() const override { return hands_.communicator.rank().value == 0; }
  [[nodiscard]] nanoseconds waited() const override { return waited_; }
  [[nodiscard]] ParameterBytes gathered() const override { return {}; }

 private:
  /// Once for each step: the optimizer has changed all values.
  void announce_values();

  const EngineHands hands_;
  const comm::TreeNode mine_;
  GradientReducer reducer_;
  bool stale_ = true;  ///< the values are not those that the model was told of
  nanoseconds waited_{0};
};

}  // namespace dlaunch::trainer
