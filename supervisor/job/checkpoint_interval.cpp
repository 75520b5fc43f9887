#include "supervisor/job/checkpoint_interval.h"

#include <algorithm>
#include <cmath>

namespace dlaunch::supervisor::job {
namespace {

constexpr double kPriorDeviceSeconds = 1000.0 * 86'400;
constexpr double kSecondsMin = 30, kSecondsMax = 30 * 60;

}  // namespace

nanoseconds judge_interval(const IntervalInputs& inputs) {
  // One failure of the prior plus those seen, over the time of the prior plus the time seen.
  const double prior = kPriorDeviceSeconds / std::max(1U, inputs.world_size);
  const double between =
      (prior + to_seconds(inputs.run_time)) / (1.0 + static_cast<double>(inputs.failures));
  const double cost = std::max(to_seconds(inputs.save_cost), 0.01);
  const double interval = std::clamp(std::sqrt(2 * cost * between), kSecondsMin, kSecondsMax);
  return nanoseconds(std::llround(interval * 1e9));
}

}  // namespace dlaunch::supervisor::job
