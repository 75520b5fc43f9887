#include "rendezvous/coordinator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/mutant.h"
#include "base/probe.h"
#include "base/units.h"
#include "rendezvous/coordinator_impl.h"

namespace dlaunch::rendezvous {

std::vector<Command> Coordinator::Impl::step(Instant now, const Event& event) {
  out_.clear();
  std::visit([&](const auto& e) { on(now, e); }, event);
  // A heartbeat of an undisturbed host changes nothing else: the common case stays O(log hosts).
  if (changed_) settle(now);
  return std::exchange(out_, {});
}

std::optional<Instant> Coordinator::Impl::next_deadline() const {
  auto deadline = liveness_.next_suspect();
  deadline = earlier(
      deadline, silence_due_ ? silence_due_ : earlier(partition_.until(), liveness_.next_expiry()));
  if (calm_until_) deadline = calm_until_;
  if (!started_ && !hopeless_) deadline = earlier(deadline, start_due_);
  if (!started_ || pending_) deadline = earlier(deadline, say_due_);
  if (!waits_.empty()) deadline = earlier(deadline, waits_.begin()->first);
  return deadline;
}

Coordinator::HostView Coordinator::Impl::view(HostId id) const {
  const auto& host = roster_.at(id);
  return {host.state, host.reason, liveness_.last_heard(id)};
}

Host& Coordinator::Impl::host(HostId id) {
  const auto found = roster_.find(id);
  DL_CHECK(found != roster_.end(), "an event names a host of this job");
  return found->second;
}

void Coordinator::Impl::refresh(HostId id) {
  auto& h = host(id);
  const bool suspect = liveness_.is_suspect(id);
  const auto state = judge_state(h, suspect, seats_.seated(id));
  seats_.note_fit(id, is_eligible(h) && !suspect);
  changed_ = true;
  const bool became = std::exchange(h.state, state) != state;
  if (is_pending(h)) {
    unsettled_.insert(id);
  } else {
    unsettled_.erase(id);
  }
  if (!became) return;
  out_.push_back(HostBecame{id, state, h.reason});
}

void Coordinator::Impl::on(Instant, const LaunchFailed& e) {
  auto& h = host(e.host);
  if (h.connected) return;
  h.reason = e.sentence;
  h.cause = e.cause;
  refresh(e.host);
}

void Coordinator::Impl::on(Instant now, const Arrived& e) {
  auto& h = host(e.host);
  generation_ = std::max(generation_, e.ordered);
  const bool adopted = h.agent == 0 && h.member;
  const bool same = adopted || (h.agent == e.agent && h.boot_id == e.boot_id);
  if (!same && h.agent != 0) {
    out_.push_back(AgentGone{e.host, h.closed_at.value_or(now), true});
    DL_PROBE("a successor of an agent says hello");
  }
  if (!same || h.lost) {
    if (h.lost || h.agent == 0) returning_.insert(e.host);
    if (!h.lost && h.agent == 0 && calm_until_) first_met_.insert(e.host);
    if (!h.lost && h.agent != 0 && seats_.seated(e.host)) seat_kept_.insert(e.host);
    h.member = false;
    h.fit = false;
    h.clean = e.running.value == 0;
  } else if (!adopted && e.relayed_by.empty() &&
             (h.closed_at || liveness_.is_suspect(e.host) || !h.relayed_by.empty())) {
    if (!h.relayed_by.empty()) DL_PROBE("a relayed host is heard directly again");
    out_.push_back(HostCleared{e.host});
  }
  if (!same && h.agent != 0) {
    paths_.forget(e.host);
    broken_.erase(e.host);
  }
  h.agent = e.agent;
  h.boot_id = e.boot_id;
  h.connected = true;
  h.lost = false;
  h.closed_at.reset();
  h.cause.clear();
  h.heard_since = now;
  h.relayed_by = e.relayed_by;
  h.reason = h.fit ? "" : "it checks itself: the trainer and the data are read and compared";
  if (!e.relayed_by.empty()) {
    DL_PROBE("a host is heard through another one");
    h.reason = say_relayed(e.relayed_by);
    out_.push_back(HostSuspected{e.host, h.reason});
  }
  if (!h.fit) {
    // Data of any size may have to be read; a host that is lost meanwhile is seen by its silence.
    h.ready_due = now + policy_.start_timeout;
    wait_until(e.host, *h.ready_due);
  }
  liveness_.watch(e.host, now);
  refresh(e.host);
  silence_changed(now);
}

void Coordinator::Impl::on(Instant, const ReadyReported& e) {
  auto& h = host(e.host);
  h.ready_due.reset();
  h.fit = true;
  h.by_files = false;
  h.workers = e.workers;
  h.data_address = e.data_address;
  h.reason = h.relayed_by.empty() ? "" : say_relayed(h.relayed_by);
  refresh(e.host);
  say_return(e.host);
}

void Coordinator::Impl::on(Instant, const UnfitReported& e) {
  auto& h = host(e.host);
  h.ready_due.reset();
  h.fit = false;
  h.by_files = e.by_files;
  h.reason = e.sentence;
  refresh(e.host);
}

void Coordinator::Impl::on(Instant, const HostCleaned& e) {
  auto& h = host(e.host);
  if (h.clean) return;
  h.clean = true;
  refresh(e.host);
  say_return(e.host);
}

void Coordinator::Impl::on(Instant now, const Heard& e) {
  if (!liveness_.heard(e.host, now, e.acknowledged_sent_at)) return;
  calm(now, e.host);
  silence_changed(now);
}

void Coordinator::Impl::on(Instant now, const Closed& e) {
  auto& h = host(e.host);
  if (!h.connected) return;
  h.connected = false;
  liveness_.forget(e.host);
  h.ready_due.reset();
  if (e.ordered) return refresh(e.host);
  h.closed_at = now;
  h.patience = e.patience;
  if (!h.relayed_by.empty()) DL_PROBE("a relayed connection has ended");
  h.reason = "the connection of its agent closed (" + e.reason + ")";
  wait_until(e.host, given_up_at(h));
  refresh(e.host);
  silence_changed(now);  // without what it said of others
}

void Coordinator::Impl::on(Instant now, const Stalled&) {
  DL_PROBE("the controller did not run for a while");
  if (DL_MUTANT("stall_not_forgiven")) return;
  for (const auto id : liveness_.reset(now)) calm(now, id);
  partition_.reset();
  if (calm_until_) calm_until_ = std::max(*calm_until_, now + policy_.readmit / 2);
  for (auto& [id, h] : roster_) {
    h.heard_since = now;
    if (!h.closed_at) continue;
    h.closed_at = now;
    wait_until(id, given_up_at(h));
  }
}

void Coordinator::Impl::on(Instant, const FormAsked& e) {
  pending_ = Pending{e.without, e.reason, false};
  changed_ = true;
}

void Coordinator::Impl::on(Instant now, const HostBlamed& e) {
  if (!policy_.quarantine) return;
  const auto end = quarantine_.blame(e.host, e.at.value_or(now), e.beyond_doubt);
  if (!end || *end <= now) return;
  auto& h = host(e.host);
  h.quarantined_until = *end;
  h.reason = "quarantined: " + e.reason;
  wait_until(e.host, *end);
  refresh(e.host);
}

void Coordinator::Impl::on(Instant, const DataLinkBecame& e) {
  auto& h = host(e.host);
  if (std::exchange(h.link_down, !e.up) == !e.up) return;
  h.reason = e.up ? "" : e.sentence;
  if (!e.up) returning_.insert(e.host);
  if (!e.up && e.probed) broken_.insert(e.host);
  refresh(e.host);
  say_return(e.host);
}

void Coordinator::Impl::on(Instant, const DrainAsked& e) {
  auto& h = host(e.host);
  if (std::exchange(h.drained, true)) return;
  h.reason = "drained on request";
  refresh(e.host);
  if (started_ && h.member) out_.push_back(MemberDrained{e.host});
}

void Coordinator::Impl::on(Instant, const AddAsked& e) {
  auto& h = host(e.host);
  if (!h.drained) return;
  h.drained = false;
  h.reason = "";
  returning_.insert(e.host);
  refresh(e.host);
  say_return(e.host, true);
}

void Coordinator::Impl::on(Instant now, const DeadlineDue&) {
  if (calm_until_ && now >= *calm_until_) end_calm(now);
  while (!waits_.empty() && waits_.begin()->first <= now) {
    const auto id = waits_.begin()->second;
    waits_.erase(waits_.begin());
    on_wait_over(now, id);
  }
  if (!calm_until_) {
    const auto suspects = liveness_.newly_suspect(now);
    for (const auto id : suspects) on_suspect(now, id);
    if (silence_due_ && now >= *silence_due_) {
      judge_silent(now);
    } else {
      silence_changed(now);
    }
    // A prober that is not heard any more has no word.
    if (!suspects.empty()) judge_paths(now);
  }
  if (!started_ && now >= start_due_) changed_ = true;
  if ((!started_ || pending_) && now >= say_due_) {
    say_due_ = now + kStillWaitingEvery;
    const auto missing = hopeless_ ? "" : say_missing(roster_);
    if (!missing.empty()) out_.push_back(StillWaiting{say_now(missing)});
  }
}

void Coordinator::Impl::on_wait_over(Instant now, HostId id) {
  auto& h = host(id);
  if (h.closed_at && given_up_at(h) <= now) {
    const auto closed = *h.closed_at;
    lose(id, closed,
         h.agent == 0 ? "its agent did not come back within " + format_duration(policy_.readmit) +
                            " after the controller was started again"
                      : "its agent is gone and no successor came within " +
                            format_duration(std::max(policy_.successor_limit, h.patience)));
  }
  if (h.ready_due && *h.ready_due <= now) {
    h.ready_due.reset();
    h.reason = "its self-checks did not end within " + format_duration(policy_.start_timeout) +
               ", the start_timeout: how fast is the disk with the data?";
    refresh(id);
  }
  if (h.quarantined_until && *h.quarantined_until <= now) {
    h.quarantined_until.reset();
    h.reason = "";
    returning_.insert(id);
    refresh(id);
    say_return(id);
  }
}

Coordinator::Coordinator(Policy policy, Generation last, Instant now)
    : impl_(std::make_unique<Impl>(std::move(policy), last, now)) {}
Coordinator::Coordinator(Policy policy, const Plan& adopted, Instant now)
    : impl_(std::make_unique<Impl>(std::move(policy), adopted.generation, now)) {
  impl_->adopt(adopted, now);
}
Coordinator::~Coordinator() = default;
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&&) noexcept = default;

std::vector<Command> Coordinator::step(Instant now, const Event& event) {
  return impl_->step(now, event);
}
std::optional<Instant> Coordinator::next_deadline() const { return impl_->next_deadline(); }
Coordinator::HostView Coordinator::view(HostId host) const { return impl_->view(host); }
std::string Coordinator::why_not_drain(HostId host) const { return impl_->why_not_drain(host); }

}  // namespace dlaunch::rendezvous
