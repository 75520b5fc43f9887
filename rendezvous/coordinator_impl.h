// The inside of the coordinator. Included by coordinator*.cpp only.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/coordinator.h"
#include "rendezvous/data_paths.h"
#include "rendezvous/liveness.h"
#include "rendezvous/partition.h"
#include "rendezvous/quarantine.h"
#include "rendezvous/roster.h"
#include "rendezvous/seats.h"

namespace dlaunch::rendezvous {

constexpr nanoseconds kStillWaitingEvery = 5s;

class Coordinator::Impl {
 public:
  Impl(Policy policy, Generation last, Instant now)
      : policy_(std::move(policy)),
        liveness_(policy_.heartbeat, policy_.lost_after),
        seats_(policy_),
        partition_(policy_.partition_grace, std::max(policy_.readmit, policy_.lost_after)),
        generation_(last),
        start_due_(now + policy_.start_timeout),
        say_due_(now + kStillWaitingEvery) {
    for (const auto& entry : policy_.hosts) {
      roster_[entry.id].entry = entry;
      unsettled_.insert(entry.id);
    }
  }

  /// In the constructor's place.
  void adopt(const Plan& plan, Instant now);
  std::vector<Command> step(Instant now, const Event& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  [[nodiscard]] HostView view(HostId id) const;
  [[nodiscard]] std::string why_not_drain(HostId id) const;

 private:
  struct Pending {
    std::set<HostId> without;
    std::string reason;
    bool said_impossible = false;
  };

  Host& host(HostId id);
  [[nodiscard]] std::string say_now(const std::string& missing) const {
    return say_ready(roster_, policy_) + "; " + missing;
  }
  void wait_until(HostId id, Instant due) { waits_.insert({due, id}); }
  void refresh(HostId id);

  // ---- events
  void on(Instant, const LaunchFailed& e);
  void on(Instant now, const Arrived& e);
  void on(Instant, const ReadyReported& e);
  void on(Instant, const UnfitReported& e);
  void on(Instant, const HostCleaned& e);
  /// A host that had been away is worth a new generation only where there is room for it.
  void say_return(HostId id, bool asked = false);
  void on(Instant now, const Heard& e);
  void on(Instant, const QuietUntil& e) { liveness_.quiet_until(e.host, e.until); }
  void on(Instant now, const Closed& e);
  void on(Instant now, const PathsReported& e);
  void on(Instant now, const Stalled&);
  void on(Instant, const FormAsked& e);
  void on(Instant now, const HostBlamed& e);
  void on(Instant, const DataLinkBecame& e);
  void on(Instant, const DrainAsked& e);
  void on(Instant, const AddAsked& e);
  void on(Instant now, const DeadlineDue&);

  // ---- after a restart of the controller
  void end_calm(Instant now);
  void start_over_if_alone(Instant now);
  /// When a host whose connection is closed counts as lost.
  [[nodiscard]] Instant given_up_at(const Host& host) const;

  // ---- who is gone
  void on_wait_over(Instant now, HostId id);
  void on_suspect(Instant now, HostId id);
  void calm(Instant now, HostId id);
  void silence_changed(Instant now);
  void judge_silent(Instant now);
  void judge_paths(Instant now);
  void hold_reachable(HostId id, const DataPaths::Heard& heard_now);
  void give_up(Instant now, HostId id, const DataPaths::Heard& heard_now);
  [[nodiscard]] bool is_heard(HostId id) const;
  [[nodiscard]] DataPaths::Heard heard() const;
  void lose(HostId id, Instant last_heard, std::string sentence);

  // ---- starting and forming
  void settle(Instant now);
  void judge_start(Instant now);
  void try_form();
  [[nodiscard]] bool is_somebody_undecided();
  void form(const Seats::Seating& seating);

  Policy policy_;
  Liveness liveness_;
  Seats seats_;
  PartitionRule partition_;
  DataPaths paths_;
  std::optional<Instant> silence_due_;  ///< many are silent: they are judged together then
  std::set<HostId> broken_;             ///< of which it was said that the others do not reach them
  Quarantine quarantine_;
  Roster roster_;
  Generation generation_;
  Instant start_due_;
  Instant say_due_;
  bool started_ = false;
  bool hopeless_ = false;
  bool starts_over_ = false;  ///< the job has run before: too few hosts are waited for
  bool changed_ = false;
  std::size_t members_ = 0;
  std::set<HostId> unsettled_;  ///< neither ready nor given up; kept by `refresh`, as what is fit
  HostId undecided_;            ///< the one that a generation waited for last
  std::set<HostId> returning_;  ///< away since they were last eligible
  std::optional<Instant> calm_until_;  ///< nobody is convicted before
  std::set<HostId> first_met_;  ///< by this incarnation, so that it is no news that they are here
  std::set<HostId> seat_kept_;  ///< members whose agent has a successor
  std::set<std::pair<Instant, HostId>> waits_;
  std::optional<Pending> pending_;
  std::vector<Command> out_;
};

}  // namespace dlaunch::rendezvous
