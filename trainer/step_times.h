// How long the recent steps took.
#pragma once

#include <cstddef>
#include <deque>

namespace dlaunch::trainer {

class StepTimes {
 public:
  void add(double seconds);
  /// The smallest time that a share of `share` (0 to 1) of the recent steps did not exceed (nearest
  /// rank); 0: there was none yet.
  [[nodiscard]] double percentile(double share) const;

 private:
  static constexpr std::size_t kKept = 100;
  std::deque<double> seconds_;
};

}  // namespace dlaunch::trainer
