#include "trainer/step_times.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dlaunch::trainer {

void StepTimes::add(double seconds) {
  seconds_.push_back(seconds);
  if (seconds_.size() > kKept) seconds_.pop_front();
}

double StepTimes::percentile(double share) const {
  if (seconds_.empty()) return 0;
  std::vector<double> sorted(seconds_.begin(), seconds_.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  const auto place = std::clamp<std::size_t>(rank, 1, sorted.size()) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(place),
                   sorted.end());
  return sorted[place];
}

}  // namespace dlaunch::trainer
