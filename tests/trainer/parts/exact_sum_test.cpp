// Sums that do not round.
#include "trainer/parallel/exact_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "trainer/model/definition.h"
#include "trainer/numbers.h"
#include "trainer/parallel/adamw.h"

namespace dlaunch::trainer {
namespace {

double sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  EXPECT_TRUE(sum.is_finite());
  return ExactSum::value_of(sum.limbs());
}

TEST(ExactSum, AddsWhatDoublesWouldLose) {
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1.5, -0.25, 4}), 5.25);
  EXPECT_EQ(sum_of({1e60, 1, -1e60}), 1);
  EXPECT_EQ(sum_of({std::ldexp(1, -298), std::ldexp(1, 260), -std::ldexp(1, 260)}),
            std::ldexp(1, -298));
  EXPECT_EQ(sum_of({-3, -4.5}), -7.5);
}

TEST(ExactSum, IsTheSameInAnyOrderAndInAnyParts) {
  std::vector<double> values;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    values.push_back(std::ldexp(normal_at(3, i), static_cast<int>(mix(i) % 200) - 100));
  }
  const double expected = sum_of(values);
  for (const std::size_t parts : {2, 3, 7}) {
    std::vector<ExactSum> sums(parts);
    for (std::size_t i = values.size(); i-- > 0;) sums[i % parts].add(values[i]);
    std::array<double, ExactSum::kLimbs> together{};
    for (const auto& sum : sums) {
      const auto limbs = sum.limbs();
      for (std::size_t i = 0; i < limbs.size(); ++i) together[i] += limbs[i];
    }
    EXPECT_EQ(ExactSum::value_of(together), expected) << parts << " parts";
  }
}

TEST(ExactSum, SaysWhenItIsNoNumber) {
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300}) {
    ExactSum sum;
    sum.add(1);
    sum.add(value);
    EXPECT_FALSE(sum.is_finite()) << value;
  }
}

TEST(Squares, AddUpToTheNormWhateverTheRows) {
  const auto layout = layout_of({1, 8, 2, 4});
  std::vector<float> values(layout.count);
  double expected = 0;
  for (const auto& parameter : layout.parameters) {
    for (std::size_t i = 0; i < parameter.count; ++i) {
      const float value = normal_at(9, parameter.first + i);
      values[parameter.first + i] = value;
      expected += static_cast<double>(value) * value;
    }
  }
  ExactSum sum;
  add_squares(layout, values, sum);
  EXPECT_NEAR(ExactSum::value_of(sum.limbs()), expected, 1e-9 * expected);
}

}  // namespace
}  // namespace dlaunch::trainer
