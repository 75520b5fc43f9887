// Who takes part: from the first quorum to each generation.
#include <algorithm>
#include <utility>

#include "base/probe.h"
#include "rendezvous/coordinator_impl.h"

namespace dlaunch::rendezvous {

void Coordinator::Impl::say_return(HostId id, bool asked) {
  if (!started_ || calm_until_ || !is_eligible(host(id)) || returning_.erase(id) == 0) return;
  const auto seating = seats_.judge(eligible({}));
  const bool joins = !pending_ && seating && seating->members.size() > members_;
  const bool no_news = first_met_.erase(id) > 0 && !joins && !asked;
  if (!no_news) out_.push_back(HostReturned{id, joins, asked});
}

std::set<HostId> Coordinator::Impl::eligible(const std::set<HostId>& without) const {
  std::set<HostId> fit;
  for (const auto& [id, h] : roster_) {
    if (is_eligible(h) && !liveness_.is_suspect(id) && !without.contains(id)) fit.insert(id);
  }
  return fit;
}

std::string Coordinator::Impl::why_not_drain(HostId id) const {
  const auto& h = roster_.at(id);
  if (!h.member || seats_.judge(eligible({id}))) return "";
  return "without " + h.entry.name + " fewer than " + std::to_string(policy_.hosts_min) +
         " hosts are left, the minimum";
}

void Coordinator::Impl::settle(Instant now) {
  changed_ = false;
  if (!started_) {
    judge_start(now);
    return;
  }
  if (pending_) try_form();
}

void Coordinator::Impl::judge_start(Instant now) {
  if (hopeless_) return;
  const bool all_settled = std::none_of(roster_.begin(), roster_.end(),
                                        [](const auto& entry) { return is_pending(entry.second); });
  if (!all_settled && now < start_due_) return;
  if (starts_over_ || seats_.judge(eligible({}))) {
    started_ = true;
    returning_.clear();
    out_.push_back(QuorumReached{say_ready(roster_, policy_)});
    return;
  }
  hopeless_ = true;
  out_.push_back(say_impossible(roster_, policy_));
}

void Coordinator::Impl::try_form() {
  for (const auto& [id, h] : roster_) {
    if (pending_->without.contains(id)) continue;
    const bool was_member = h.member || seat_kept_.contains(id);
    // Of one that is held it will not be known soon.
    const bool suspect = liveness_.is_suspect(id) && !liveness_.is_held(id);
    if (is_undecided(h, was_member, suspect)) return;
  }
  seat_kept_.clear();
  const auto seating = seats_.judge(eligible(pending_->without));
  if (!seating) {
    if (!pending_->said_impossible) {
      pending_->said_impossible = true;
      DL_PROBE("no generation can be formed for now");
      out_.push_back(CannotForm{say_now(say_missing(roster_))});
    }
    return;
  }
  form(*seating);
}

void Coordinator::Impl::form(const Seats::Seating& seating) {
  seats_.take(seating);
  members_ = seating.members.size();
  generation_.value += 1;
  const std::set<HostId> members(seating.members.begin(), seating.members.end());
  auto plan = make_plan(generation_, seating, roster_);
  plan.seats = seats_.holders();
  out_.push_back(Formed{std::move(plan), pending_->reason});
  pending_.reset();
  for (auto& [id, h] : roster_) {
    h.member = members.contains(id);
    refresh(id);
  }
  changed_ = false;
}

}  // namespace dlaunch::rendezvous
