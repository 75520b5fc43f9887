// GPT-2's loss in plain loops and doubles, written from the formulas: what the model is held to.
#pragma once

#include <span>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// The mean loss over all tokens of the batch.
[[nodiscard]] double reference_loss(const ModelSettings& settings, const ParameterLayout& layout,
                                    std::span<const double> flat, const Batch& batch);

}  // namespace dlaunch::trainer
