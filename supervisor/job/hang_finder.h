// Finds that a job makes no progress, and the rank that the others wait for.
#pragma once

#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "supervisor/job/cause.h"
#include "supervisor/job/ranks.h"

namespace dlaunch::supervisor::job {

struct HangLimits {
  nanoseconds floor = 60s;
  nanoseconds checkpoint = 30min;
  nanoseconds first_step = 30min;  ///< as long as no step was completed
  bool has_steps = true;           ///< a rank without a step can be told from one that reports none
};

/// When the next look is due: the first moment at which some rank could count as hung. nullopt: no
/// rank has reported a step yet, so a hang never acts.
[[nodiscard]] std::optional<Instant> hang_deadline(const Ranks& ranks, const HangLimits& limits);

/// The rank that holds the others up, with the sentence; nullopt: nothing hangs. First a process
/// that is stopped or sleeps in the kernel, then the one that has entered the fewest collectives,
/// then the one that is outside a collective while others wait inside.
[[nodiscard]] std::optional<Happening> judge_hang(const Ranks& ranks, const HangLimits& limits,
                                                  Instant now);

}  // namespace dlaunch::supervisor::job
