// Who takes part: from the first quorum to each generation.
#include <algorithm>
#include <utility>

#include "base/probe.h"
#include "rendezvous/coordinator_impl.h"

namespace dlaunch::rendezvous {

void Coordinator::Impl::say_return(HostId id, bool asked) {
  if (!started_ || calm_until_ || !is_eligible(host(id)) || returning_.erase(id) == 0) return;
  const bool joins = !pending_ && seats_.size({}) > members_;
  const bool no_news = first_met_.erase(id) > 0 && !joins && !asked;
  if (!no_news) out_.push_back(HostReturned{id, joins, asked});
}

std::string Coordinator::Impl::why_not_drain(HostId id) const {
  const auto& h = roster_.at(id);
  if (!h.member || seats_.size({id}) > 0) return "";
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
  // Of a suspect it is known soon whether it is there, unless it is held.
  const auto& suspects = liveness_.suspects();
  const bool undecided =
      !unsettled_.empty() || std::any_of(suspects.begin(), suspects.end(),
                                         [&](HostId id) { return !liveness_.is_held(id); });
  if (undecided && now < start_due_) return;
  if (starts_over_ || seats_.size({}) > 0) {
    started_ = true;
    returning_.clear();
    out_.push_back(QuorumReached{say_ready(roster_, policy_)});
    return;
  }
  hopeless_ = true;
  out_.push_back(say_impossible(roster_, policy_));
}

/// Once round, from the one that was waited for last: many that come back one after the other are
/// not all looked at for each of them.
bool Coordinator::Impl::is_somebody_undecided() {
  auto entry = roster_.lower_bound(undecided_);
  for (std::size_t looked = 0; looked < roster_.size(); ++looked, ++entry) {
    if (entry == roster_.end()) entry = roster_.begin();
    const auto& [id, h] = *entry;
    if (pending_->without.contains(id)) continue;
    const bool was_member = h.member || seat_kept_.contains(id);
    // Of one that is held it will not be known soon.
    const bool suspect = liveness_.is_suspect(id) && !liveness_.is_held(id);
    if (!is_undecided(h, was_member, suspect)) continue;
    undecided_ = id;
    return true;
  }
  return false;
}

void Coordinator::Impl::try_form() {
  const bool enough = seats_.size(pending_->without) > 0;
  if (!enough && pending_->said_impossible) return;
  if (is_somebody_undecided()) return;
  seat_kept_.clear();
  auto fit = seats_.fit();
  for (const auto host : pending_->without) fit.erase(host);
  const auto seating = seats_.judge(fit);
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
