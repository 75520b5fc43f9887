// Worker crashes by host: those of one host alone are the host's fault.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::supervisor::job {

/// A program that crashes everywhere says nothing about a host; so the rule wants many crashes on
/// one host and none on any other.
class CrashWatch {
 public:
  static constexpr std::size_t kCrashesMin = 5;
  static constexpr nanoseconds kWindow = 1h;

  /// True: with this crash the host is to blame; it then counts from nothing.
  [[nodiscard]] bool crashed(HostId host, Instant now);
  [[nodiscard]] std::vector<std::pair<Instant, HostId>> crashes() const {
    return {crashes_.begin(), crashes_.end()};
  }
  void restore(const std::vector<std::pair<Instant, HostId>>& crashes) {
    crashes_.assign(crashes.begin(), crashes.end());
  }

 private:
  std::deque<std::pair<Instant, HostId>> crashes_;  ///< bounded by the restart budget of a window
};

}  // namespace dlaunch::supervisor::job
