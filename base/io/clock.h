// The one place that reads the clocks. Machines are handed the time; only hands call this.
#pragma once

#include <chrono>
#include <ctime>

#include "base/time.h"

namespace dlaunch {

/// CLOCK_MONOTONIC: stands still while the machine is suspended.
[[nodiscard]] inline Instant monotonic_now() { return std::chrono::steady_clock::now(); }

/// CLOCK_BOOTTIME: counts suspension too, so that a gap in our own life is seen.
[[nodiscard]] inline nanoseconds boot_time_now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// Wall clock, for people and files only.
[[nodiscard]] inline UnixSeconds unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace dlaunch
