// The job's supervisor: evidence in, incident and verdict out; drives generations from start to
// end.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "supervisor/job/command.h"
#include "supervisor/job/event.h"
#include "supervisor/job/figures.h"
#include "supervisor/job/policy.h"
#include "supervisor/job/recovered.h"

namespace dlaunch::supervisor::job {

/// What status shows; a copy, cheap enough for a few per second.
struct RankView {
  Rank rank;
  HostId host;
  std::uint32_t pid = 0;  ///< 0: absent
  std::string state;      ///< absent, starting, ready, connecting, running, parked, exited
  std::optional<Step> step;
  std::string phase;
  double waiting_seconds = 0;           ///< of the last step
  std::uint64_t memory_bytes = 0;       ///< resident; 0: not known
  std::uint64_t memory_peak_bytes = 0;  ///< since its process began
};
struct View {
  JobState state = JobState::starting;
  std::string reason;
  Generation generation;
  std::uint32_t world_size = 0;
  std::optional<Step> step;  ///< last completed by all ranks
  std::optional<double> loss;
  std::optional<Step> loss_step;  ///< whose loss it is: perhaps the one that others still compute
  double tokens_per_second = 0;
  double step_seconds = 0;  ///< recent median
  Figures figures;
  std::optional<Step> disk_step;
  std::string checkpoint_every;  ///< "94 steps", "5 min"
  std::vector<RankView> ranks;
  std::vector<Incident> incidents;
};

/// Owned by the controller, used on its thread only.
class Job {
 public:
  /// The mesh token is a secret and therefore no decision: the controller fills Assign.token.
  Job(Policy policy, Recovered recovered, Instant now);
  ~Job();
  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;

  [[nodiscard]] std::vector<Command> step(Instant now, const Event& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  [[nodiscard]] View view() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::supervisor::job
