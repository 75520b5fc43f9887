// A sum of doubles without rounding: its bits depend on what is added, not on the order or on who
// adds which part.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace dlaunch::trainer {

/// A fixed-point number wide enough for sums of squares of floats, as a superaccumulator of
/// Kulisch is (U. Kulisch, Computer Arithmetic and Validity, 2013): 640 bits from 2^-320 on.
class ExactSum {
 public:
  static constexpr std::size_t kLimbs = 20;

  /// What is no finite number, or beyond the range, makes the sum one that is not finite.
  void add(double value);
  /// This sum's limbs, each a whole number below 2^33: many ranks' limbs add without rounding.
  [[nodiscard]] std::array<double, kLimbs> limbs() const;
  [[nodiscard]] bool is_finite() const { return finite_; }

  /// The number that added limbs stand for, rounded in one fixed way.
  [[nodiscard]] static double value_of(std::span<const double, kLimbs> limbs);

 private:
  void carry();

  std::array<std::int64_t, kLimbs> limbs_{};
  std::uint32_t added_ = 0;  ///< since the limbs were last made small
  bool finite_ = true;
};

}  // namespace dlaunch::trainer
