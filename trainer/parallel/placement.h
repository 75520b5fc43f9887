// Where this rank's part of the state lies, and where its model reads: what the strategy decides.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "trainer/io/reserved_array.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/engine.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

class Placement {
 public:
  [[nodiscard]] static Result<Placement> make(const TrainerSettings& settings,
                                              std::uint32_t world_size, Rank rank);

  /// Of the model, and of the values, moments and gradients that this rank keeps.
  [[nodiscard]] const ParameterLayout& whole() const { return whole_; }
  [[nodiscard]] const ParameterLayout& kept() const { return kept_; }
  /// Where the model reads; `state_values`: those that this rank keeps.
  [[nodiscard]] std::span<float> model_values(std::span<float> state_values) const {
    return gathered_ ? gathered_->values() : state_values;
  }
  /// Once per generation; this object and `state_values` must outlive it.
  [[nodiscard]] std::unique_ptr<GradientEngine> make_engine(EngineHands hands,
                                                            std::span<const float> state_values);

 private:
  Placement(ParameterLayout whole, ParameterLayout kept)
      : whole_(std::move(whole)), kept_(std::move(kept)) {}

  ParameterLayout whole_, kept_;
  bool prefetch_ = true;
  std::optional<ReservedArray> gathered_;  ///< FSDP: addresses of all values
  std::vector<ReservedArray> gradients_;   ///< FSDP: of all gradients, per slot
};

}  // namespace dlaunch::trainer
