// What is known of each rank of the present generation, and what follows for the whole job.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/dense_map.h"
#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "rendezvous/command.h"

namespace dlaunch::supervisor::job {

struct RankStatus {
  HostId host;
  protocol::WorkerStatus status;
  std::optional<Step> loss_step;      ///< whose loss the status has
  bool finished = false;              ///< ended properly
  std::optional<Instant> changed_at;  ///< step, phase or sequence
  bool taken_over = false;            ///< for how long nothing has changed its agent says first
};

/// Filled by heartbeats; made anew for each generation.
class Ranks {
 public:
  void begin_generation(const rendezvous::Plan& plan, Instant now);
  /// Statuses of ranks that are not this host's are ignored.
  void heard(HostId host, const protocol::WorkerStatus& status, Instant now);
  void started(Rank rank, std::uint32_t pid) { ranks_.at(rank).status.set_pid(pid); }
  /// All ranks have completed this step, whatever their heartbeats have told so far.
  void reached(Step step);
  /// Its process ended after `step` steps; `properly`: nothing more is wanted of it.
  void ended(Rank rank, std::optional<Step> step, bool properly);
  /// None of its processes lives, and none is known to have ended properly.
  void host_ended(HostId host);
  /// Whatever ran there is not there any more, as far as can be seen.
  void host_gone(HostId host);
  /// All ranks run since then: the time before does not count for hangs.
  void go(Instant since);

  [[nodiscard]] const DenseMap<Rank, RankStatus>& all() const { return ranks_; }
  [[nodiscard]] bool all_finished() const;
  /// None of their processes lives.
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] HostId host_of(Rank rank) const;
  /// Some of them are this host's.
  [[nodiscard]] bool has(HostId host) const {
    const auto of = of_host_.find(host);
    return of != of_host_.end() && of->second.first < of->second.second;
  }
  /// The last step completed by all ranks; nullopt: there is none, or no source of steps.
  [[nodiscard]] std::optional<Step> step() const;
  /// The newest that is known, the same on all ranks, and its step.
  [[nodiscard]] std::optional<double> loss() const;
  [[nodiscard]] std::optional<Step> loss_step() const;
  /// Recent median; 0: unknown.
  [[nodiscard]] double step_seconds() const;
  [[nodiscard]] double tokens_per_second() const;

  /// By a controller that was not there: for how long nothing has changed the agents say first.
  void taken_over();
  /// A generation that is taken over has completed steps before.
  void stepped_before() { has_stepped_ = true; }
  /// A step has been completed while running, in this or an earlier generation.
  [[nodiscard]] bool has_stepped() const { return has_stepped_; }
  /// Some rank is writing a checkpoint.
  [[nodiscard]] bool is_saving() const;

 private:
  void completed(RankStatus& known, std::uint64_t step);

  static constexpr std::size_t kStepTimesKept = 15;
  DenseMap<Rank, RankStatus> ranks_;
  /// Its first and the one after its last; the same where it has none.
  DenseMap<HostId, std::pair<Rank, Rank>> of_host_;
  std::map<std::uint64_t, std::uint32_t>
      at_step_;  ///< how many ranks have completed just this step
  std::uint32_t without_step_ = 0;
  bool has_stepped_ = false;
  std::deque<double> step_seconds_;
};

}  // namespace dlaunch::supervisor::job
