// The model on LibTorch against plain loops, and its gradients against differences of these.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/trainer/parts/reference_gpt.h"
#include "trainer/flat_array.h"
#include "trainer/model/definition.h"
#include "trainer/model/library.h"
#include "trainer/model/unit_chain.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

class GptTest : public testing::Test {
 protected:
  GptTest() : layout_(layout_of(kModel)), values_(layout_.count), gradients_(layout_.count) {
    set_threads(1);
    fill_first_values(layout_, 5, values_.values());
    // Larger than at the start, so that every part of the model matters in the loss.
    for (std::size_t i = 0; i < layout_.count; ++i) {
      values_.values()[i] = 4 * values_.values()[i] + 0.05F * normal_at(99, i);
    }
    for (std::size_t i = 0; i < kSequences * kModel.context; ++i) {
      inputs_.push_back(static_cast<std::int64_t>(mix(i) % kModel.vocabulary));
      targets_.push_back(static_cast<std::int64_t>(mix(i + 1000) % kModel.vocabulary));
    }
  }

  [[nodiscard]] Batch batch() const { return {kSequences, kModel.context, inputs_, targets_}; }
  [[nodiscard]] std::vector<double> doubles() const {
    return {values_.values().begin(), values_.values().end()};
  }
  [[nodiscard]] std::unique_ptr<Model> make() {
    settings_.model = kModel;
    return make_model(settings_, layout_, values_.values());
  }
  double compute(Model& model) {
    const auto loss = model.forward(batch());
    EXPECT_TRUE(loss) << loss.error().text();
    const auto done = model.backward(gradients_.values(), [](std::size_t) {});
    EXPECT_TRUE(done) << done.error().text();
    return loss.value_or(0);
  }

  static constexpr ModelSettings kModel{2, 24, 3, 10, 300};
  static constexpr std::uint32_t kSequences = 3;
  TrainerSettings settings_;
  ParameterLayout layout_;
  FlatArray values_;
  FlatArray gradients_;
  std::vector<std::int64_t> inputs_, targets_;
};

TEST_F(GptTest, TheLossIsThatOfTheFormulas) {
  const auto model = make();
  EXPECT_NEAR(compute(*model), reference_loss(kModel, layout_, doubles(), batch()), 1e-4);
}

TEST_F(GptTest, ProductsInBfloat16AreCloseToThoseInSinglePrecisionAndNotTheSame) {
  const auto exact = make();
  const auto loss = compute(*exact);
  const std::vector<float> slopes(gradients_.values().begin(), gradients_.values().end());
  std::vector<float> again;
  for (const bool checkpointing : {false, true}) {
    settings_.precision = Precision::bf16;
    settings_.activation_checkpointing = checkpointing;
    const auto mixed = make();
    const auto rounded = compute(*mixed);
    EXPECT_NEAR(rounded, loss, 0.02 * loss);
    EXPECT_NE(rounded, loss);
    double off = 0, all = 0;
    for (const auto& parameter : layout_.parameters) {
      for (std::size_t i = parameter.first; i < parameter.first + parameter.count; ++i) {
        const auto slope = gradients_.values()[i];
        off += (slope - slopes[i]) * (slope - slopes[i]);
        all += slopes[i] * slopes[i];
      }
    }
    EXPECT_LT(std::sqrt(off / all), 0.05) << "of the gradient's length";
    EXPECT_GT(off, 0);
    if (checkpointing) {
      EXPECT_TRUE(std::ranges::equal(again, gradients_.values())) << "run again: the same bits";
    }
    again.assign(gradients_.values().begin(), gradients_.values().end());
  }
}

TEST_F(GptTest, GradientsOfEveryParameterAreTheSlopesOfTheLoss) {
  const auto model = make();
  compute(*model);
  constexpr double kStep = 1e-4;
  auto flat = doubles();
  for (const auto& parameter : layout_.parameters) {
    for (std::size_t probe = 0; probe < 4; ++probe) {
      const auto at = parameter.first + mix(probe) % parameter.count;
      const double value = flat[at];
      flat[at] = value + kStep;
      const double above = reference_loss(kModel, layout_, flat, batch());
      flat[at] = value - kStep;
      const double below = reference_loss(kModel, layout_, flat, batch());
      flat[at] = value;
      EXPECT_NEAR(gradients_.values()[at], (above - below) / (2 * kStep), 2e-4)
          << parameter.name << " at " << at - parameter.first;
    }
  }
}

TEST_F(GptTest, EachParameterIsReadyOnceAndItsGradientIsInPlaceThen) {
  const auto model = make();
  compute(*model);
  const std::vector<float> expected(gradients_.values().begin(), gradients_.values().end());
  std::ranges::fill(gradients_.values(), -1.0F);
  std::multiset<std::size_t> ready;
  ASSERT_TRUE(model->forward(batch()));
  ASSERT_TRUE(model->backward(gradients_.values(), [&](std::size_t index) {
    ready.insert(index);
    const auto& parameter = layout_.parameters[index];
    EXPECT_TRUE(std::equal(
        expected.begin() + static_cast<std::ptrdiff_t>(parameter.first),
        expected.begin() + static_cast<std::ptrdiff_t>(parameter.first + parameter.count),
        gradients_.values().begin() + static_cast<std::ptrdiff_t>(parameter.first)))
        << parameter.name << ": the same bits each time, none of the last pass added";
  }));
  EXPECT_EQ(ready.size(), layout_.parameters.size());
  EXPECT_EQ(std::set(ready.begin(), ready.end()).size(), ready.size());
}

TEST_F(GptTest, RunningBlocksAgainInTheBackwardPassGivesTheSameBits) {
  const auto once = make();
  const double loss = compute(*once);
  const std::vector<float> expected(gradients_.values().begin(), gradients_.values().end());
  std::ranges::fill(gradients_.values(), 0.0F);
  settings_.activation_checkpointing = true;
  const auto twice = make();
  EXPECT_EQ(compute(*twice), loss);
  EXPECT_TRUE(std::ranges::equal(gradients_.values(), expected));
}

TEST_F(GptTest, TwoMicroBatchesMayBeOnTheirWayAtATime) {
  const auto model = make();
  compute(*model);
  const std::vector<float> expected(gradients_.values().begin(), gradients_.values().end());
  std::ranges::fill(gradients_.values(), 0.0F);
  FlatArray others(layout_.count);
  auto shifted = inputs_;
  std::ranges::rotate(shifted, shifted.begin() + 5);
  const Batch other{kSequences, kModel.context, shifted, targets_};
  for (std::size_t unit = 0; unit < model->units(); ++unit) {
    ASSERT_TRUE(model->forward_unit(unit, 0, batch()));
    ASSERT_TRUE(model->forward_unit(unit, 1, other));
  }
  for (std::size_t unit = model->units(); unit-- > 0;) {
    ASSERT_TRUE(model->backward_unit(unit, 0, gradients_.values(), [](std::size_t) {}));
    ASSERT_TRUE(model->backward_unit(unit, 1, others.values(), [](std::size_t) {}));
  }
  EXPECT_TRUE(std::ranges::equal(gradients_.values(), expected));
  EXPECT_FALSE(std::ranges::equal(others.values(), expected));
}

TEST_F(GptTest, TheModelFollowsTheValuesThatItWasGiven) {
  const auto model = make();
  compute(*model);
  for (auto& value : values_.values()) value *= 1.5F;
  EXPECT_NEAR(compute(*model), reference_loss(kModel, layout_, doubles(), batch()), 1e-3);
}

TEST_F(GptTest, EvaluatingGivesTheLossOfAForwardPassAndChangesNoGradient) {
  const auto model = make();
  const auto expected = compute(*model);
  const std::vector<float> gradients(gradients_.values().begin(), gradients_.values().end());
  EXPECT_EQ(model->evaluate(batch()).value(), expected);
  EXPECT_EQ(compute(*model), expected);
  EXPECT_TRUE(std::ranges::equal(gradients_.values(), gradients));
}

TEST_F(GptTest, WhatTheLibraryRefusesBecomesAnErrorWithItsWords) {
  const auto model = make();
  inputs_[3] = kModel.vocabulary;
  const auto loss = model->forward(batch());
  ASSERT_FALSE(loss);
  EXPECT_THAT(loss.error().text(), testing::HasSubstr("computing the loss: index out of range"));
}

/// One unit with two parameters, of which it forgets one.
class Forgetful final : public UnitChain {
 public:
  using UnitChain::UnitChain;
  double flops_per_token() const override { return 0; }

 private:
  at::Tensor apply(std::size_t, const at::Tensor&, const Batch&) const override {
    return parameter(0).sum();
  }
};

TEST(UnitChain, NamesAParameterThatItsUnitDoesNotUse) {
  LayoutBuilder builder;
  builder.unit();
  builder.matrix("used", 2, 2, 1);
  builder.matrix("forgotten", 2, 2, 1);
  const auto layout = builder.take();
  FlatArray values(layout.count), gradients(layout.count);
  Forgetful model(layout, values.values());
  ASSERT_TRUE(model.forward({}));
  const auto done = model.backward(gradients.values(), [](std::size_t) {});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().text(), testing::HasSubstr("forgotten has no gradient"));
}

TEST(Library, NamesItself) { EXPECT_THAT(numeric_library(), testing::StartsWith("torch 2.")); }

}  // namespace
}  // namespace dlaunch::trainer
