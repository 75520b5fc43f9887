// For tests with other processes or threads: one generous deadline instead of a sleep.
#pragma once

#include <poll.h>

#include "base/io/clock.h"

namespace dlaunch {

/// False: `condition` did not come true within `limit`.
template <class Condition>
[[nodiscard]] bool wait_until(Condition condition, nanoseconds limit = 60s) {
  const auto end = monotonic_now() + limit;
  while (!condition()) {
    if (monotonic_now() > end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace dlaunch
