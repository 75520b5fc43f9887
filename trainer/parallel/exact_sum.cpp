#include "trainer/parallel/exact_sum.h"

#include <cmath>

namespace dlaunch::trainer {
namespace {

__extension__ using Wide = unsigned __int128;  // a mantissa, moved by less than a limb

constexpr int kLimbBits = 32;
constexpr int kLowestBit = -320;
constexpr int kMantissaBits = 53;
constexpr std::int64_t kLimb = std::int64_t{1} << kLimbBits;
/// Additions of less than 2^32 to a limb before it could overflow.
constexpr std::uint32_t kAddedMax = 1U << 30;

template <class Limbs>
void carry_over(Limbs& limbs) {
  for (std::size_t i = 0; i + 1 < limbs.size(); ++i) {
    const std::int64_t over = limbs[i] >> kLimbBits;
    limbs[i] -= over * kLimb;
    limbs[i + 1] += over;
  }
}

}  // namespace

void ExactSum::add(double value) {
  if (value == 0) return;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  int position = exponent - kMantissaBits - kLowestBit;
  // A mantissa reaches into two more limbs.
  if (!std::isfinite(value) || position / kLimbBits + 2 >= static_cast<int>(kLimbs)) {
    finite_ = false;
    return;
  }
  const auto whole = static_cast<std::int64_t>(std::ldexp(fraction, kMantissaBits));
  auto magnitude = static_cast<Wide>(whole < 0 ? -whole : whole);
  const std::int64_t sign = whole < 0 ? -1 : 1;
  if (position < 0) {
    magnitude = position > -kMantissaBits ? magnitude >> -position : 0;
    position = 0;
  }
  magnitude <<= position % kLimbBits;
  for (auto i = static_cast<std::size_t>(position / kLimbBits); magnitude != 0; ++i) {
    limbs_[i] += sign * static_cast<std::int64_t>(magnitude & (kLimb - 1));
    magnitude >>= kLimbBits;
  }
  if (++added_ == kAddedMax) carry();
}

void ExactSum::carry() {
  carry_over(limbs_);
  added_ = 0;
}

std::array<double, ExactSum::kLimbs> ExactSum::limbs() const {
  auto small = limbs_;
  carry_over(small);
  std::array<double, kLimbs> result{};
  for (std::size_t i = 0; i < kLimbs; ++i) result[i] = static_cast<double>(small[i]);
  return result;
}

double ExactSum::value_of(std::span<const double, kLimbs> limbs) {
  std::array<std::int64_t, kLimbs> whole{};
  for (std::size_t i = 0; i < kLimbs; ++i) whole[i] = static_cast<std::int64_t>(limbs[i]);
  carry_over(whole);
  double sum = 0;
  for (std::size_t i = kLimbs; i-- > 0;) {
    sum += std::ldexp(static_cast<double>(whole[i]), kLowestBit + kLimbBits * static_cast<int>(i));
  }
  return sum;
}

}  // namespace dlaunch::trainer
