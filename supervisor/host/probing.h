// Whom this agent probes on the data network, and who of them answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

/// An authentic answer to probe `number`.
struct ProbeAnswered {
  HostId host;
  std::uint64_t number = 0;
};
struct ProbeDue {};
/// This process itself did not run for a while: nothing could be heard.
struct ProbingStalled {};
/// Replaces the ones before; a host that keeps its address and port keeps what is known of it.
struct PeersGiven {
  protocol::Peers peers;
  nanoseconds lost_after{};
};
using ProbeEvent = std::variant<ProbeAnswered, ProbeDue, ProbingStalled, PeersGiven>;

/// To that address, on the agent's own port.
struct SendProbe {
  HostId host;
  std::uint64_t number = 0;
};
/// All that is known now, for the controller.
struct ReportPaths {
  protocol::PathReport report;
};
using ProbeCommand = std::variant<SendProbe, ReportPaths>;

/// A host has a word only once it has answered: where probes never get through, a firewall say,
/// nothing follows from their silence. Owned by the prober's hands, on their thread.
class Probing {
 public:
  // Beside the two that are probed there are those that only relay.
  static constexpr int kPeersMax = 16;

  [[nodiscard]] std::vector<ProbeCommand> step(Instant now, const ProbeEvent& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const { return due_; }

 private:
  // An answer is taken for one of the newest probes only: a replayed or very late one says nothing.
  static constexpr std::size_t kOutstandingMax = 64;
  // Late timers alone must not make a silence of one lost datagram.
  static constexpr std::size_t kUnansweredMin = 3;

  struct Target {
    protocol::Peer peer;
    std::map<std::uint64_t, Instant> outstanding;  ///< by number, when it was sent
    std::optional<Instant> answered;               ///< never: it has no word
    std::size_t unanswered = 0;                    ///< probes sent since
    enum class Word { none, answers, silent } word = Word::none;
  };
  void on(Instant now, const ProbeAnswered& e);
  void on(Instant now, const ProbeDue&);
  void on(Instant now, const ProbingStalled&);
  void on(Instant now, const PeersGiven& e);
  void report(Instant now);

  std::map<HostId, Target> targets_;
  nanoseconds interval_ = 100ms;
  nanoseconds silent_after_ = 450ms;
  std::uint64_t number_ = 0;
  std::optional<Instant> due_;
  std::vector<ProbeCommand> out_;
};

}  // namespace dlaunch::supervisor::host
