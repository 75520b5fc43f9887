#include "trainer/model/gelu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "trainer/model/gelu_values.h"

namespace dlaunch::trainer {
namespace {

TEST(GeluValues, AreWithinFourLastPlacesOfTheFormula) {
  std::vector<float> inputs;
  for (int i = -40'000; i <= 40'000; ++i) inputs.push_back(static_cast<float>(i) / 2048);
  std::vector<float> values(inputs.size()), slopes(inputs.size());
  gelu_values(inputs, values, slopes);
  constexpr double kPlace = std::numeric_limits<float>::epsilon();
  const double root = std::sqrt(2 / std::numbers::pi);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double x = inputs[i];
    const double sigmoid = 1 / (1 + std::exp(-2 * root * (x + 0.044715 * x * x * x)));
    const double slope = sigmoid + x * sigmoid * (1 - sigmoid) * 2 * root * (1 + 0.134145 * x * x);
    const double size = std::max(std::abs(x), 0.125);
    ASSERT_NEAR(values[i], x * sigmoid, 4 * kPlace * size) << x;
    ASSERT_NEAR(slopes[i], slope, 4 * kPlace) << x;
  }
}

TEST(GeluValues, AreTheSameWhereverAnInputStands) {
  std::vector<float> inputs(61, 0.7F), values(61), slopes(61);  // whole vectors and a rest
  gelu_values(inputs, values, slopes);
  for (const auto value : values) EXPECT_EQ(value, values[0]);
  for (const auto slope : slopes) EXPECT_EQ(slope, slopes[0]);
}

TEST(GeluValues, HaveTheSlopeOfALineFarOut) {
  const std::array<float, 6> inputs{25, 1e10F, 1e25F, -25, -1e10F, -1e25F};
  std::array<float, 6> values{}, slopes{};
  gelu_values(inputs, values, slopes);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_FLOAT_EQ(slopes[i] + 1, inputs[i] > 0 ? 2 : 1) << inputs[i];
    EXPECT_NEAR(values[i], inputs[i] > 0 ? inputs[i] : 0, std::abs(inputs[i]) * 1e-6) << inputs[i];
  }
}

TEST(GeluValues, PassOnWhatIsNoNumber) {
  const std::array<float, 2> inputs{std::numeric_limits<float>::quiet_NaN(),
                                    std::numeric_limits<float>::infinity()};
  std::array<float, 2> values{}, slopes{};
  gelu_values(inputs, values, slopes);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_TRUE(std::isinf(values[1]));
}

TEST(Gelu, AndItsGradientAreThoseOfTheLibrary) {
  const auto inputs = at::linspace(-8, 8, 1001).reshape({7, 143});
  auto ours = inputs.clone().set_requires_grad(true);
  auto library = inputs.clone().set_requires_grad(true);
  const auto upstream = at::linspace(-1, 2, 1001).reshape({7, 143});
  const auto value = tanh_gelu(ours);
  const auto expected = at::gelu(library, "tanh");
  EXPECT_TRUE(at::allclose(value, expected, 1e-5, 1e-6));
  value.backward(upstream);
  expected.backward(upstream);
  EXPECT_TRUE(at::allclose(ours.grad(), library.grad(), 1e-5, 1e-6));
}

}  // namespace
}  // namespace dlaunch::trainer
