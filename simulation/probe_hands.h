// The data network as one agent sees it: the real probing machine, and datagrams that are answered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "simulation/event_queue.h"
#include "simulation/host_clock.h"
#include "supervisor/host/probing.h"

namespace dlaunch::simulation {

/// Ten probes a second of each host would be all that a simulation does. So where all are answered
/// none is sent; before anything happens to a path `wake` says that they have been, and from then
/// on each is sent again. Owned by its host, one for each life of its agent.
class ProbeHands : public std::enable_shared_from_this<ProbeHands> {
 public:
  struct Hands {
    /// A probe that is sent now to this port of that host comes back.
    std::function<bool(HostId, std::uint32_t)> answers;
    std::function<void(protocol::PathReport)> report;
    /// False: the process is stopped.
    std::function<bool()> runs;
  };
  ProbeHands(EventQueue& queue, const HostClock& clock, Hands hands)
      : queue_(queue), clock_(clock), hands_(std::move(hands)) {}

  void know(protocol::Peers peers, nanoseconds lost_after);
  /// Something is about to happen to one of the paths, or has been mended.
  void wake();
  /// It did not run for a while.
  void stalled();

 private:
  /// Rounds in which all have answered, before no more are sent.
  static constexpr int kCalmRounds = 2;

  void arm();
  void round();
  /// False: one is not answered.
  bool perform(std::vector<supervisor::host::ProbeCommand> commands, bool at_once);
  void answered(HostId host, std::uint64_t number);
  [[nodiscard]] bool is_answered(HostId host) const;
  [[nodiscard]] Instant own_now() const { return clock_.own(queue_.now()); }

  EventQueue& queue_;
  const HostClock& clock_;
  Hands hands_;
  supervisor::host::Probing machine_;
  std::vector<std::pair<HostId, std::uint32_t>> peers_;  ///< and their ports
  bool asleep_ = true;
  int calm_ = 0;
  std::uint64_t timers_ = 0;  ///< only the newest counts
};

}  // namespace dlaunch::simulation
