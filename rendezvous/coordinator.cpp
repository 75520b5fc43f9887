#include "rendezvous/coordinator.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "rendezvous/liveness.h"
#include "rendezvous/partition.h"
#include "rendezvous/quarantine.h"
#include "rendezvous/roster.h"
#include "rendezvous/seats.h"

namespace dlaunch::rendezvous {
namespace {

constexpr nanoseconds kStillWaitingEvery = 5s;
}  // namespace

class Coordinator::Impl {
 public:
  Impl(Policy policy, Generation last, Instant now)
      : policy_(std::move(policy)),
        liveness_(policy_.heartbeat, policy_.lost_after),
        seats_(policy_),
        partition_(policy_.partition_grace),
        generation_(last),
        start_due_(now + policy_.start_timeout),
        say_due_(now + kStillWaitingEvery) {
    for (const auto& entry : policy_.hosts) roster_[entry.id].entry = entry;
  }

  std::vector<Command> step(Instant now, const Event& event) {
    out_.clear();
    std::visit([&](const auto& e) { on(now, e); }, event);
    // A heartbeat of an undisturbed host changes nothing else: the common case stays O(log hosts).
    if (changed_) settle(now);
    return std::exchange(out_, {});
  }

  [[nodiscard]] std::optional<Instant> next_deadline() const {
    auto deadline = partition_.until() ? partition_.until() : liveness_.next_deadline();
    if (!started_ && !hopeless_) deadline = earlier(deadline, start_due_);
    if (!started_ || pending_) deadline = earlier(deadline, say_due_);
    if (!waits_.empty()) deadline = earlier(deadline, waits_.begin()->first);
    return deadline;
  }

  [[nodiscard]] HostView view(HostId id) const {
    const auto& host = roster_.at(id);
    return {host.state, host.reason, liveness_.last_heard(id)};
  }

 private:
  struct Pending {
    std::set<HostId> without;
    std::string reason;
    bool said_impossible = false;
  };

  Host& host(HostId id) {
    const auto found = roster_.find(id);
    DL_CHECK(found != roster_.end(), "an event names a host of this job");
    return found->second;
  }
  void wait_until(HostId id, Instant due) { waits_.insert({due, id}); }
  void refresh(HostId id) {
    auto& h = host(id);
    const auto state = judge_state(h, liveness_.is_suspect(id), seats_.seated(id));
    changed_ = true;
    if (state == h.state) return;
    h.state = state;
    out_.push_back(HostBecame{id, state, h.reason});
  }

  void on(Instant, const LaunchFailed& e) {
    auto& h = host(e.host);
    if (h.connected) return;
    h.reason = e.sentence;
    h.cause = e.cause;
    refresh(e.host);
  }

  void on(Instant now, const Arrived& e) {
    auto& h = host(e.host);
    const bool same = h.agent == e.agent && h.boot_id == e.boot_id;
    if (!same && h.agent != 0) {
      out_.push_back(AgentGone{e.host, h.closed_at.value_or(now), true});
    }
    if (!same || h.lost) {
      if (h.lost || h.agent == 0) returning_.insert(e.host);
      if (!h.lost && h.agent != 0 && seats_.seated(e.host)) seat_kept_.insert(e.host);
      h.member = false;
      h.fit = false;
      h.clean = e.running.value == 0;
    } else if (h.closed_at) {
      out_.push_back(HostCleared{e.host});
    }
    h.agent = e.agent;
    h.boot_id = e.boot_id;
    h.connected = true;
    h.lost = false;
    h.closed_at.reset();
    h.cause.clear();
    h.reason = h.fit ? "" : "it checks itself: the trainer and the data are read and compared";
    if (!h.fit) {
      // Data of any size may have to be read; a host that is lost meanwhile is seen by its silence.
      h.ready_due = now + policy_.start_timeout;
      wait_until(e.host, *h.ready_due);
    }
    liveness_.watch(e.host, now);
    refresh(e.host);
  }

  void on(Instant, const ReadyReported& e) {
    auto& h = host(e.host);
    h.ready_due.reset();
    h.fit = true;
    h.by_files = false;
    h.workers = e.workers;
    h.data_address = e.data_address;
    h.reason = "";
    refresh(e.host);
    say_return(e.host);
  }

  void on(Instant, const UnfitReported& e) {
    auto& h = host(e.host);
    h.ready_due.reset();
    h.fit = false;
    h.by_files = e.by_files;
    h.reason = e.sentence;
    refresh(e.host);
  }

  void on(Instant, const HostCleaned& e) {
    auto& h = host(e.host);
    if (h.clean) return;
    h.clean = true;
    refresh(e.host);
    say_return(e.host);
  }

  /// A host that had been away is worth a new generation only where there is room for it.
  void say_return(HostId id) {
    if (!started_ || !is_eligible(host(id)) || returning_.erase(id) == 0) return;
    const auto seating = seats_.judge(eligible({}));
    const bool joins = !pending_ && seating && seating->members.size() > members_;
    out_.push_back(HostReturned{id, joins});
  }

  void on(Instant now, const Heard& e) {
    if (!liveness_.heard(e.host, now, e.acknowledged_sent_at)) return;
    auto& h = host(e.host);
    h.reason = "";
    out_.push_back(HostCleared{e.host});
    refresh(e.host);
  }

  void on(Instant now, const Closed& e) {
    auto& h = host(e.host);
    if (!h.connected) return;
    h.connected = false;
    liveness_.forget(e.host);
    h.ready_due.reset();
    h.closed_at = now;
    h.reason = "the connection of its agent closed (" + e.reason + ")";
    wait_until(e.host, now + policy_.successor_limit);
    refresh(e.host);
  }

  void on(Instant now, const Stalled&) {
    for (const auto id : liveness_.reset(now)) {
      out_.push_back(HostCleared{id});
      host(id).reason = "";
      refresh(id);
    }
    partition_.reset();
    for (auto& [id, h] : roster_) {
      if (!h.closed_at) continue;
      h.closed_at = now;
      wait_until(id, now + policy_.successor_limit);
    }
  }

  void on(Instant, const FormAsked& e) {
    pending_ = Pending{e.without, e.reason, false};
    changed_ = true;
  }

  void on(Instant now, const HostBlamed& e) {
    if (!policy_.quarantine) return;
    const auto end = quarantine_.blame(e.host, now, e.beyond_doubt);
    if (!end) return;
    auto& h = host(e.host);
    h.quarantined_until = *end;
    h.reason = "quarantined: " + e.reason;
    wait_until(e.host, *end);
    refresh(e.host);
  }

  void on(Instant, const DataLinkBecame& e) {
    auto& h = host(e.host);
    if (std::exchange(h.link_down, !e.up) == !e.up) return;
    h.reason = e.up ? "" : e.sentence;
    if (!e.up) returning_.insert(e.host);
    refresh(e.host);
    say_return(e.host);
  }

  void on(Instant, const DrainAsked& e) {
    auto& h = host(e.host);
    h.drained = true;
    h.reason = "drained on request";
    refresh(e.host);
  }

  void on(Instant, const AddAsked& e) {
    auto& h = host(e.host);
    if (!h.drained) return;
    h.drained = false;
    h.reason = "";
    returning_.insert(e.host);
    refresh(e.host);
    say_return(e.host);
  }

  void on(Instant now, const DeadlineDue&) {
    while (!waits_.empty() && waits_.begin()->first <= now) {
      const auto id = waits_.begin()->second;
      waits_.erase(waits_.begin());
      on_wait_over(now, id);
    }
    for (const auto id : liveness_.newly_suspect(now)) on_suspect(now, id);
    convict(now);
    if (!started_ && now >= start_due_) changed_ = true;
    if ((!started_ || pending_) && now >= say_due_) {
      say_due_ = now + kStillWaitingEvery;
      const auto missing = say_missing(roster_);
      if (!missing.empty() && !hopeless_) {
        out_.push_back(StillWaiting{say_ready(roster_, policy_) + "; " + missing});
      }
    }
  }

  void on_wait_over(Instant now, HostId id) {
    auto& h = host(id);
    if (h.closed_at && *h.closed_at + policy_.successor_limit <= now) {
      const auto closed = *h.closed_at;
      lose(id, closed,
           "its agent is gone and no successor came within " +
               format_duration(policy_.successor_limit));
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

  void on_suspect(Instant now, HostId id) {
    const auto silent = now - liveness_.last_heard(id).value_or(now);
    host(id).reason = "silent";
    out_.push_back(HostSuspected{id, silent});
    refresh(id);
  }

  void convict(Instant now) {
    const auto expired = liveness_.expired(now);
    if (expired.empty()) return partition_.reset();
    auto verdict = partition_.judge(now, liveness_.watched(), liveness_.suspects());
    if (!verdict.sentence.empty()) out_.push_back(StillWaiting{std::move(verdict.sentence)});
    if (!verdict.convict) return;
    for (const auto id : expired) {
      const auto heard = liveness_.last_heard(id).value_or(now);
      lose(id, heard, "silent for " + format_duration(now - heard));
      out_.push_back(DropHost{id, "the host was silent for too long and was given up"});
    }
  }

  void lose(HostId id, Instant last_heard, std::string sentence) {
    auto& h = host(id);
    liveness_.forget(id);
    h.connected = false;
    h.closed_at.reset();
    h.ready_due.reset();
    h.lost = true;
    h.member = false;
    h.clean = false;
    h.reason = sentence;
    returning_.insert(id);
    out_.push_back(HostLost{id, last_heard, std::move(sentence)});
    refresh(id);
  }

  [[nodiscard]] std::set<HostId> eligible(const std::set<HostId>& without) const {
    std::set<HostId> fit;
    for (const auto& [id, h] : roster_) {
      if (is_eligible(h) && !liveness_.is_suspect(id) && !without.contains(id)) fit.insert(id);
    }
    return fit;
  }

  void settle(Instant now) {
    changed_ = false;
    if (!started_) {
      judge_start(now);
      return;
    }
    if (pending_) try_form();
  }

  void judge_start(Instant now) {
    if (hopeless_) return;
    const bool all_settled = std::none_of(
        roster_.begin(), roster_.end(), [](const auto& entry) { return is_pending(entry.second); });
    if (!all_settled && now < start_due_) return;
    if (seats_.judge(eligible({}))) {
      started_ = true;
      returning_.clear();
      out_.push_back(QuorumReached{say_ready(roster_, policy_)});
      return;
    }
    hopeless_ = true;
    out_.push_back(say_impossible(roster_, policy_));
  }

  void try_form() {
    for (const auto& [id, h] : roster_) {
      const bool was_member = h.member || seat_kept_.contains(id);
      if (pending_->without.contains(id)) continue;
      Host judged = h;
      judged.member = was_member;
      if (is_undecided(judged, liveness_.is_suspect(id))) return;
    }
    seat_kept_.clear();
    const auto seating = seats_.judge(eligible(pending_->without));
    if (!seating) {
      if (!pending_->said_impossible) {
        pending_->said_impossible = true;
        out_.push_back(CannotForm{say_ready(roster_, policy_) + "; " + say_missing(roster_)});
      }
      return;
    }
    form(*seating);
  }

  void form(const Seats::Seating& seating) {
    seats_.take(seating);
    members_ = seating.members.size();
    generation_.value += 1;
    const std::set<HostId> members(seating.members.begin(), seating.members.end());
    out_.push_back(Formed{make_plan(generation_, seating, roster_), pending_->reason});
    pending_.reset();
    for (auto& [id, h] : roster_) {
      h.member = members.contains(id);
      refresh(id);
    }
    changed_ = false;
  }

  Policy policy_;
  Liveness liveness_;
  Seats seats_;
  PartitionRule partition_;
  Quarantine quarantine_;
  Roster roster_;
  Generation generation_;
  Instant start_due_;
  Instant say_due_;
  bool started_ = false;
  bool hopeless_ = false;
  bool changed_ = false;
  std::size_t members_ = 0;
  std::set<HostId> returning_;  ///< away since they were last eligible
  std::set<HostId> seat_kept_;  ///< members whose agent has a successor
  std::set<std::pair<Instant, HostId>> waits_;
  std::optional<Pending> pending_;
  std::vector<Command> out_;
};

Coordinator::Coordinator(Policy policy, Generation last, Instant now)
    : impl_(std::make_unique<Impl>(std::move(policy), last, now)) {}
Coordinator::~Coordinator() = default;
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&&) noexcept = default;

std::vector<Command> Coordinator::step(Instant now, const Event& event) {
  return impl_->step(now, event);
}
std::optional<Instant> Coordinator::next_deadline() const { return impl_->next_deadline(); }
Coordinator::HostView Coordinator::view(HostId host) const { return impl_->view(host); }

}  // namespace dlaunch::rendezvous
