#include "rendezvous/quarantine.h"

#include <algorithm>

namespace dlaunch::rendezvous {

std::optional<Instant> Quarantine::blame(HostId host, Instant now, bool beyond_doubt) {
  auto& history = histories_[host];
  while (!history.faults.empty() && history.faults.front() + kWindow < now) {
    history.faults.pop_front();
  }
  history.faults.push_back(now);
  if (!beyond_doubt && history.faults.size() < kFaultsMax) return std::nullopt;
  history.faults.clear();
  const auto end = now + history.cool_down;
  history.cool_down = std::min(history.cool_down * 2, kCoolDownMax);
  return end;
}

}  // namespace dlaunch::rendezvous
