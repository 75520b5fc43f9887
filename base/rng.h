// Dice for the machines: seeded, injected, with distributions that do not differ between libraries.
#pragma once

#include <cstdint>
#include <random>

#include "base/time.h"

namespace dlaunch {

/// Deterministic: the same seed gives the same answers on every platform. Not for secrets.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(seed) {}

  [[nodiscard]] std::uint64_t next() { return engine_(); }
  /// Uniform in [0, bound); bound 0 gives 0. The bias of the remainder is below 2^-32 for our
  /// bounds.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
    return bound == 0 ? 0 : engine_() % bound;
  }
  /// True with probability `percent` / 100.
  [[nodiscard]] bool chance(std::uint32_t percent) { return below(100) < percent; }
  /// Uniform in [low, high].
  [[nodiscard]] nanoseconds between(nanoseconds low, nanoseconds high) {
    return low + nanoseconds(static_cast<std::int64_t>(
                     below(static_cast<std::uint64_t>((high - low).count()) + 1)));
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace dlaunch
