// Arithmetic that gives the same bits on every machine: no library function, no hidden state.
#pragma once

#include <cstdint>
#include <string_view>

namespace dlaunch::trainer {

/// Scrambles 64 bits one to one (the finalizer of SplitMix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

/// FNV-1a, scrambled: a key for a tensor's name.
[[nodiscard]] constexpr std::uint64_t key_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
  }
  return mix(hash);
}

/// About normal, mean 0, deviation 1, never beyond 3.5: the sum of the four 16-bit parts of
/// mix(key + index), so that no logarithm of some mathematics library decides about bits.
[[nodiscard]] constexpr float normal_at(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t bits = mix(key + index * 0xd1342543de82ef95ull);
  const auto sum = static_cast<std::int64_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                             (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr double kMean = 2.0 * 65535;
  constexpr double kDeviation = 37837.225;  // sqrt(4 * (2^32 - 1) / 12)
  return static_cast<float>((static_cast<double>(sum) - kMean) / kDeviation);
}

/// base^exponent by squaring.
[[nodiscard]] constexpr double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

/// cos(π · half_turns) for 0 to 1, by its series: mathematics libraries differ in the last bit.
[[nodiscard]] constexpr double cosine_of_half_turns(double half_turns) {
  if (half_turns > 0.5) return -cosine_of_half_turns(1 - half_turns);
  constexpr double kPi = 3.14159265358979323846;
  const double square = kPi * half_turns * kPi * half_turns;
  double term = 1, sum = 1;
  for (int i = 1; i <= 12; ++i) {
    term *= -square / ((2 * i - 1) * (2 * i));
    sum += term;
  }
  return sum;
}

}  // namespace dlaunch::trainer
