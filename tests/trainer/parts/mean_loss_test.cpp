#include "trainer/model/mean_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

namespace dlaunch::trainer {
namespace {

constexpr std::int64_t kRows = 12, kClasses = 33;

/// {loss, gradient}
template <class Loss>
std::pair<at::Tensor, at::Tensor> run(const at::Tensor& logits, Loss loss) {
  auto leaf = logits.clone().set_requires_grad(true);
  const auto value = loss(leaf * 2, at::arange(kRows) * 2);
  (3 * value).backward();
  return {value.data(), leaf.grad()};
}
auto ours(const at::Tensor& logits) {
  return run(logits, [](const auto& a, const auto& b) { return mean_loss(a, b); });
}
auto library(const at::Tensor& logits) {
  return run(logits, [](const auto& a, const auto& b) { return at::cross_entropy_loss(a, b); });
}

TEST(MeanLoss, AndItsGradientAreThoseOfTheLibrary) {
  for (const double spread : {0.01, 1.0, 20.0}) {
    const auto logits = at::randn({kRows, kClasses}) * spread;
    const auto [loss, gradient] = ours(logits);
    const auto [expected_loss, expected_gradient] = library(logits);
    EXPECT_TRUE(at::allclose(loss, expected_loss, 1e-6, 1e-6)) << loss << expected_loss;
    EXPECT_TRUE(at::allclose(gradient, expected_gradient, 1e-5, 1e-7)) << spread;
  }
}

TEST(MeanLoss, IsFiniteWhereTheTargetHasNoProbability) {
  auto logits = at::randn({kRows, kClasses});
  logits.select(1, 31).fill_(500);
  const auto [loss, gradient] = ours(logits);
  EXPECT_TRUE(at::allclose(loss, library(logits).first, 1e-6)) << loss;
  EXPECT_GT(loss.item<float>(), 900);
  EXPECT_TRUE(at::allclose(gradient, library(logits).second, 1e-5, 1e-7));
}

TEST(MeanLoss, IsNoNumberWhereALogitIsNone) {
  auto logits = at::randn({kRows, kClasses});
  logits[3][4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(ours(logits).first.item<float>()));
}

}  // namespace
}  // namespace dlaunch::trainer
