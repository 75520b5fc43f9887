#include "supervisor/job/crash_watch.h"

#include <algorithm>

namespace dlaunch::supervisor::job {

bool CrashWatch::crashed(HostId host, Instant now) {
  while (!crashes_.empty() && crashes_.front().first + kWindow < now) crashes_.pop_front();
  crashes_.emplace_back(now, host);
  const bool alone = std::all_of(crashes_.begin(), crashes_.end(),
                                 [&](const auto& crash) { return crash.second == host; });
  if (!alone || crashes_.size() < kCrashesMin) return false;
  crashes_.clear();
  return true;
}

}  // namespace dlaunch::supervisor::job
