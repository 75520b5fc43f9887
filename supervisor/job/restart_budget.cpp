#include "supervisor/job/restart_budget.h"

#include <algorithm>

#include "base/mutant.h"

namespace dlaunch::supervisor::job {

std::uint32_t RestartBudget::left(Instant now) const {
  const auto spent =
      std::count_if(spends_.begin(), spends_.end(), [&](Instant at) { return at + window_ > now; });
  const auto most = restarts_max_ + (DL_MUTANT("budget_off_by_one") ? 1U : 0U);
  return most - std::min(most, static_cast<std::uint32_t>(spent));
}

bool RestartBudget::spend(Instant now) {
  while (!spends_.empty() && spends_.front() + window_ <= now) spends_.pop_front();
  if (left(now) == 0) return false;
  spends_.push_back(now);
  return true;
}

void RestartBudget::give_back() {
  if (!spends_.empty()) spends_.pop_front();
}

}  // namespace dlaunch::supervisor::job
