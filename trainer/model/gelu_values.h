// GELU and its slope, elementwise, without LibTorch.
#pragma once

#include <span>

namespace dlaunch::trainer {

/// For each input x, with GPT-2's approximation by tanh (Hendrycks and Gimpel, arXiv:1606.08415):
/// `values` x σ(2u), u = √(2/π) (x + 0.044715 x³), and `slopes` its derivative. Within four units
/// of the last place of the larger of |x| and 1/8 and, because nothing is contracted, the same bits
/// whatever vectors the processor has. All three are of one length; none overlap.
void gelu_values(std::span<const float> inputs, std::span<float> values, std::span<float> slopes);

}  // namespace dlaunch::trainer
