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
#include "trainer/parallel/sharing.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

class Placement {
 public:
  /// `whole`: of the model. `errc::invalid_argument`: the ranks cannot share copies as the settings
  /// want it.
  [[nodiscard]] static Result<Placement> make(const TrainerSettings& settings,
                                              ParameterLayout whole, std::uint32_t world_size,
                                              Rank rank);

  [[nodiscard]] const Sharing& sharing() const { return sharing_; }

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
  Placement(const Sharing& sharing, ParameterLayout whole, ParameterLayout kept)
      : sharing_(sharing), whole_(std::move(whole)), kept_(std::move(kept)) {}

  Sharing sharing_;
  ParameterLayout whole_, kept_;
  bool prefetch_ = true;
  std::optional<ReservedArray> gathered_;  ///< FSDP, HSDP: addresses of all values
  std::vector<ReservedArray> gradients_;   ///< likewise of all gradients, per slot
};

}  // namespace dlaunch::trainer
