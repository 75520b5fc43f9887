// The trainer's only look at the clock.
#pragma once

#include "base/time.h"

namespace dlaunch {

[[nodiscard]] inline Instant trainer_now() {
  return std::chrono::time_point_cast<nanoseconds>(std::chrono::steady_clock::now());
}

}  // namespace dlaunch
