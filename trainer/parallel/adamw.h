// AdamW with decoupled decay as one loop over flat arrays, the norm's clip and the rate's warm-up.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/model/parameters.h"
#include "trainer/parallel/exact_sum.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Linear warm-up over `warmup_steps`, then constant or half a wave of the cosine down to
/// `min_learning_rate`, where it stays from `decay_steps` on. It does not depend on `steps`, so a
/// run that is prolonged equals one that was asked for in full. `step`: taken before this one.
[[nodiscard]] double learning_rate_at(const TrainerSettings& settings, std::uint64_t step);

/// Adds the squares of all values, row by row: the same rows give the same bits, whoever keeps
/// them. `values` are laid out as `layout` says.
void add_squares(const ParameterLayout& layout, std::span<const float> values, ExactSum& sum);

/// What gradients are multiplied with so that their norm is at most `clip`; 1 for `clip` 0.
[[nodiscard]] double clip_factor(double norm, double clip);

struct AdamWState {
  std::span<float> values;
  std::span<float> moments;         ///< running mean of the gradients
  std::span<float> second_moments;  ///< and of their squares
};

/// Takes one step. `gradients` are multiplied with `scale` first. `step` counts from 1.
void adamw_step(const ParameterLayout& layout, const AdamWState& state,
                std::span<const float> gradients, double scale, const TrainerSettings& settings,
                double learning_rate, std::uint64_t step);

}  // namespace dlaunch::trainer
