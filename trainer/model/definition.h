// What the trainer trains: declared here, defined by one model. GPT-2 (gpt.cpp, gpt_layout.cpp)
// unless the build names another file: docs/own_model.md.
#pragma once

#include <memory>
#include <span>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Names, shapes, units and first values; needs no LibTorch. The numbers of `[trainer.model]` mean
/// what the model makes of them.
[[nodiscard]] ParameterLayout layout_of(const ModelSettings& model);

/// The model reads its parameters from `values` (flat, as `layout`, its own, says), which outlive
/// it and may change between the passes of a micro-batch.
[[nodiscard]] std::unique_ptr<Model> make_model(const TrainerSettings& settings,
                                                const ParameterLayout& layout,
                                                std::span<float> values);

}  // namespace dlaunch::trainer
