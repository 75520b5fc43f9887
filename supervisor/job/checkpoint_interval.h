// How often a checkpoint pays: Young's formula from what saving costs and how often jobs fail.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace dlaunch::supervisor::job {

/// What the interval rests on; status shows the result.
struct IntervalInputs {
  nanoseconds save_cost{};  ///< of one checkpoint, the newest measurement
  std::uint32_t world_size = 1;
  nanoseconds run_time{};      ///< of the job so far
  std::uint64_t failures = 0;  ///< in that time
};

/// sqrt(2 × cost × mean time between failures), Young 1974, clamped to 30 s … 30 min. The prior is
/// one failure per 1,000 device-days (docs/failure_model.md), the job's own failures are added.
[[nodiscard]] nanoseconds judge_interval(const IntervalInputs& inputs);

}  // namespace dlaunch::supervisor::job
