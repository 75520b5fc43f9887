// GPT-2's parameters as one flat array: names, shapes, places and first values. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Bytes are the tokens.
constexpr std::uint32_t kVocabulary = 256;

struct Parameter {
  std::string name;  ///< Hugging Face's, as GPT2LMHeadModel saves it
  std::vector<std::uint64_t> shape;
  std::size_t first = 0;  ///< in the flat array
  std::size_t count = 0;
  bool decays = false;  ///< weight decay: matrices do, biases and gains do not
  float deviation = 0;  ///< of the first values; 0: all are `value`
  float value = 0;
};

struct ParameterLayout {
  std::vector<Parameter> parameters;  ///< in the order of the forward pass
  std::size_t count = 0;              ///< of the flat array, with the gaps of alignment
};

/// Each parameter starts at a multiple of 64 bytes, as LibTorch's own tensors do, so that vector
/// code splits its loops alike. Linear weights are [in, out], as GPT-2's Conv1D has them.
[[nodiscard]] ParameterLayout layout_of(const ModelSettings& model);

/// A function of seed and names alone. `flat` has `layout.count` values; gaps become 0.
void fill_first_values(const ParameterLayout& layout, std::uint64_t seed, std::span<float> flat);

}  // namespace dlaunch::trainer
