// A controller that was started again takes over the generation that is there.
#include <algorithm>

#include "base/units.h"
#include "rendezvous/coordinator_impl.h"

namespace dlaunch::rendezvous {

void Coordinator::Impl::adopt(const Plan& plan, Instant now) {
  started_ = true;
  members_ = plan.members.size();
  seats_.restore(plan.seats);
  calm_until_ = now + policy_.readmit;
  for (const auto& member : plan.members) {
    auto& h = host(member.host);
    h.member = true;
    h.fit = true;
    h.workers = member.workers;
    h.data_address = member.data_address;
    h.reason = "its agent is awaited: the controller was started again";
    h.closed_at = now;
    h.state = judge_state(h, false, true);
    wait_until(member.host, given_up_at(h));
  }
}

Instant Coordinator::Impl::given_up_at(const Host& host) const {
  // A member of the adopted generation that has not been met has all of the calm.
  if (host.agent == 0) return calm_until_.value_or(*host.closed_at);
  const auto limit = std::max(policy_.successor_limit, host.patience);
  return std::max(*host.closed_at + limit, calm_until_.value_or(Instant{}));
}

void Coordinator::Impl::end_calm(Instant now) {
  calm_until_.reset();
  start_over_if_alone(now);
  // Silence counts from now: what was before may have been our own.
  for (const auto id : liveness_.reset(now)) refresh(id);
  judge_paths(now);
  const auto met = returning_;
  for (const auto id : met) say_return(id);
}

/// After a reboot of this machine, say: the agents' lease is long over and no host is to blame.
void Coordinator::Impl::start_over_if_alone(Instant now) {
  const bool alone = std::all_of(roster_.begin(), roster_.end(), [](const auto& entry) {
    return !entry.second.member || entry.second.agent == 0;
  });
  if (!alone) return;
  for (auto& [id, h] : roster_) {
    if (!h.member) continue;
    h.member = h.fit = false;
    h.closed_at.reset();
    h.reason = "not connected yet";
    refresh(id);
  }
  members_ = 0;
  started_ = false;
  starts_over_ = true;
  returning_.clear();
  first_met_.clear();
  start_due_ = now + policy_.start_timeout;
  out_.push_back(NobodyCameBack{"no agent of generation " + std::to_string(generation_.value) +
                                " came back within " + format_duration(policy_.readmit)});
}

}  // namespace dlaunch::rendezvous
