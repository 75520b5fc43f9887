#include "supervisor/job/recovered.h"

#include <algorithm>

namespace dlaunch::supervisor::job {

Recovered on_this_clock(Recovered recovered, Instant now) {
  if (recovered.same_clock) return recovered;
  auto& counted = recovered.counted;
  counted.began.reset();
  std::fill(counted.restarts.begin(), counted.restarts.end(), now);
  counted.crashes.clear();
  if (recovered.went) recovered.went = now;
  recovered.committed_at.reset();
  recovered.blames.clear();
  for (auto& link : recovered.broken_links) link.since = now;
  recovered.wait_until.reset();
  recovered.unsure.clear();
  return recovered;
}

}  // namespace dlaunch::supervisor::job
