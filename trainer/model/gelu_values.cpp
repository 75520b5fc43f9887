// Built without contraction of a*b+c (trainer/CMakeLists.txt), for several sets of vectors.
#include "trainer/model/gelu_values.h"

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace dlaunch::trainer {
namespace {

constexpr float kTwiceRoot = 1.5957691216057308F;  // 2 √(2/π)
constexpr float kCubic = 0.044715F;

/// e^x for |x| up to 87: Cephes' expf (S. Moshier), without its branches.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: a sum with it has no fraction
  const float shifted = x * kLog2E + kRound;
  const float whole = shifted - kRound;
  const float rest = (x - whole * kLn2High) - whole * kLn2Low;
  float series = 1.9875691500e-4F;
  series = series * rest + 1.3981999507e-3F;
  series = series * rest + 8.3334519073e-3F;
  series = series * rest + 4.1665795894e-2F;
  series = series * rest + 1.6666665459e-1F;
  series = series * rest + 5.0000001201e-1F;
  series = series * rest * rest + rest + 1;
  // The sum's last bits are the exponent.
  const auto power = std::bit_cast<std::uint32_t>(shifted) << 23U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(series) + power);
}

}  // namespace

[[gnu::target_clones("avx512f", "avx2", "default")]] static void compute(
    std::size_t count, const float* __restrict inputs, float* __restrict values,
    float* __restrict slopes) {
  for (std::size_t i = 0; i < count; ++i) {
    const float x = inputs[i];
    const float square = x * x;
    float turned = -kTwiceRoot * (x + kCubic * square * x);
    turned = turned < 87.0F ? turned : 87.0F;
    turned = turned > -87.0F ? turned : -87.0F;
    const float power = exponential(turned);
    const float sigmoid = 1 / (1 + power);
    const float value = x * sigmoid;
    values[i] = value;
    // 1 - σ without losing its digits.
    const float rest = power * sigmoid;
    float near = x < 20.0F ? x : 20.0F;  // beyond it the slope is that of a line
    near = near > -20.0F ? near : -20.0F;
    const float steepness = kTwiceRoot * (1 + 3 * kCubic * near * near);
    slopes[i] = sigmoid + near * sigmoid * rest * steepness;
  }
}

void gelu_values(std::span<const float> inputs, std::span<float> values, std::span<float> slopes) {
  DL_CHECK(values.size() == inputs.size() && slopes.size() == inputs.size(), "one length");
  compute(inputs.size(), inputs.data(), values.data(), slopes.data());
}

}  // namespace dlaunch::trainer
