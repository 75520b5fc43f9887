// Time as the machines see it: handed in, never read.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace dlaunch {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using namespace std::chrono_literals;

/// A point on this process's monotonic clock. Only `io/clock.h` reads the clock; stamps of
/// different hosts are never compared.
using Instant = std::chrono::time_point<std::chrono::steady_clock, nanoseconds>;

/// Seconds since the Unix epoch, for people and files only; no decision rests on it.
using UnixSeconds = double;

[[nodiscard]] constexpr double to_seconds(nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// For numbers that others say: at most ten years either way, so that sums of a few fit; what is
/// no number is no time.
[[nodiscard]] constexpr nanoseconds from_seconds(double number) {
  constexpr double kMax = 10.0 * 365 * 24 * 3600;
  if (number != number) return 0ns;
  return nanoseconds(static_cast<std::int64_t>(std::clamp(number, -kMax, kMax) * 1e9));
}

/// The earlier of two deadlines, of which either may be missing.
[[nodiscard]] constexpr std::optional<Instant> earlier(std::optional<Instant> a,
                                                       std::optional<Instant> b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

}  // namespace dlaunch
