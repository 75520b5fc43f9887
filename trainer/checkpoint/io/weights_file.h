// Weights that others trained: one safetensors file, as PyTorch programs and Hugging Face save it.
#pragma once

#include <filesystem>
#include <span>

#include "base/result.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

/// Fills every destination (f32) from the tensor of its name, or of its name without
/// "transformer." in front (Hugging Face's GPT2Model has none), of type F32, F16 or BF16. What else
/// is in the file (masks, a tied head) is left alone. Reads only the rows that are wanted.
/// `errc::invalid_argument`: the file is not one of these, or lacks tensors or has other shapes;
/// all that is wrong at once.
[[nodiscard]] Result<void> load_weights(const std::filesystem::path& path,
                                        std::span<const TensorDestination> wanted);

/// The value of sixteen bits as IEEE 754 binary16 and as bfloat16 have them.
[[nodiscard]] float float_of_half(std::uint16_t bits);
[[nodiscard]] float float_of_bfloat(std::uint16_t bits);

}  // namespace dlaunch::checkpoint
