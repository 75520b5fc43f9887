// A simulated host's own monotonic clock: its zero is not ours, and it runs a little fast or slow.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace dlaunch::simulation {

class HostClock {
 public:
  /// Shows `shown` at the world's `now`.
  HostClock(Instant now, Instant shown) : world_(now), own_(shown) {}

  /// From now on it gains so many microseconds each second.
  void drift(Instant now, std::int64_t parts_per_million) {
    own_ = own(now);
    world_ = now;
    rate_ = kMillion + parts_per_million;
  }
  [[nodiscard]] Instant own(Instant world) const {
    return own_ + scaled(world - world_, rate_, kMillion);
  }
  /// The first moment at which it surely shows `own`.
  [[nodiscard]] Instant world(Instant own) const {
    return world_ + scaled(own - own_, kMillion, rate_) + kRounding;
  }

 private:
  static constexpr std::int64_t kMillion = 1'000'000;
  static constexpr nanoseconds kRounding = 2us;  // both directions round down

  static nanoseconds scaled(nanoseconds length, std::int64_t by, std::int64_t of) {
    return nanoseconds(length.count() / of * by + length.count() % of * by / of);
  }

  Instant world_, own_;
  std::int64_t rate_ = kMillion;
};

}  // namespace dlaunch::simulation
