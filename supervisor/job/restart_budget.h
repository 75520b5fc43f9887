// How many restarts a job may spend, so that a broken one does not go round for ever.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"

namespace dlaunch::supervisor::job {

/// Each restart spends one, each newly committed checkpoint gives one back, spends lapse after the
/// window.
class RestartBudget {
 public:
  RestartBudget(std::uint32_t restarts_max, nanoseconds window)
      : restarts_max_(restarts_max), window_(window) {}

  /// False: nothing is left, and nothing was spent.
  [[nodiscard]] bool spend(Instant now);
  void give_back();
  [[nodiscard]] std::uint32_t left(Instant now) const;
  [[nodiscard]] std::uint32_t spent(Instant now) const { return restarts_max_ - left(now); }
  [[nodiscard]] std::uint32_t restarts_max() const { return restarts_max_; }
  [[nodiscard]] std::vector<Instant> spends() const { return {spends_.begin(), spends_.end()}; }
  void restore(const std::vector<Instant>& spends) { spends_.assign(spends.begin(), spends.end()); }

 private:
  std::uint32_t restarts_max_;
  nanoseconds window_;
  std::deque<Instant> spends_;
};

}  // namespace dlaunch::supervisor::job
