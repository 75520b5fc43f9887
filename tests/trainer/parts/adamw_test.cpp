// The optimizer against the formulas of its paper, in doubles.
#include "trainer/parallel/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "trainer/flat_array.h"
#include "trainer/model/definition.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

TEST(AdamW, FollowsTheFormulasForMatricesAndBiases) {
  const auto layout = layout_of({1, 8, 2, 4});
  TrainerSettings settings;
  settings.weight_decay = 0.3;
  FlatArray values(layout.count), moments(layout.count), seconds(layout.count),
      gradients(layout.count);
  fill_first_values(layout, 3, values.values());
  std::vector<double> value(values.values().begin(), values.values().end());
  std::vector<double> moment(layout.count), second(layout.count);
  constexpr double kRate = 0.01, kScale = 0.25;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    for (std::size_t i = 0; i < layout.count; ++i) {
      gradients.values()[i] = normal_at(step, i);
    }
    adamw_step(layout, {values.values(), moments.values(), seconds.values()}, gradients.values(),
               kScale, settings, kRate, step);
    for (const auto& parameter : layout.parameters) {
      for (std::size_t i = parameter.first; i < parameter.first + parameter.count; ++i) {
        const double gradient = kScale * gradients.values()[i];
        moment[i] = 0.9 * moment[i] + 0.1 * gradient;
        second[i] = 0.95 * second[i] + 0.05 * gradient * gradient;
        const double mean = moment[i] / (1 - std::pow(0.9, step));
        const double square = second[i] / (1 - std::pow(0.95, step));
        if (parameter.decays) value[i] *= 1 - kRate * settings.weight_decay;
        value[i] -= kRate * mean / (std::sqrt(square) + 1e-8);
      }
    }
  }
  for (const auto& parameter : layout.parameters) {
    for (std::size_t i = parameter.first; i < parameter.first + parameter.count; ++i) {
      ASSERT_NEAR(values.values()[i], value[i], 1e-5) << parameter.name;
    }
  }
}

TEST(AdamW, MatricesDecayAndBiasesAndGainsDoNot) {
  for (const auto& parameter : layout_of({2, 8, 2, 4}).parameters) {
    EXPECT_EQ(parameter.decays, parameter.shape.size() == 2) << parameter.name;
  }
}

TEST(Clip, ScalesOnlyWhatIsTooLong) {
  EXPECT_DOUBLE_EQ(clip_factor(5, 1), 0.2);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(5, 0), 1) << "0 means none";
}

TEST(LearningRate, RisesOverTheWarmUpAndThenStays) {
  TrainerSettings settings;
  settings.learning_rate = 1;
  settings.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 1'000'000), 1);
  settings.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 0), 1);
}

TEST(LearningRate, FallsAlongTheCosineToItsEnd) {
  TrainerSettings settings;
  settings.learning_rate = 1;
  settings.min_learning_rate = 0.1;
  settings.warmup_steps = 2;
  settings.decay_steps = 10;
  settings.schedule = Schedule::cosine;
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 2), 1);
  EXPECT_NEAR(learning_rate_at(settings, 4), 0.1 + 0.45 * (1 + 0.70710678118654752), 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 6), 0.55);
  EXPECT_NEAR(learning_rate_at(settings, 9), 0.1 + 0.45 * (1 - 0.92387953251128674), 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 10), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(settings, 1'000'000), 0.1);
}

TEST(Numbers, TheCosineIsThatOfTheLibrary) {
  for (int i = 0; i <= 1000; ++i) {
    EXPECT_NEAR(cosine_of_half_turns(i / 1000.0), std::cos(std::numbers::pi * i / 1000), 1e-15);
  }
}

TEST(Numbers, PowersAreThoseOfTheLibrary) {
  EXPECT_EQ(power(0.9, 0), 1);
  EXPECT_NEAR(power(0.95, 1000), std::pow(0.95, 1000), 1e-30);
}

}  // namespace
}  // namespace dlaunch::trainer
