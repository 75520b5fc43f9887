// What happens to the job: from agents (wire messages), the coordinator, the user and the disk.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "rendezvous/command.h"

namespace dlaunch::supervisor::job {

/// Once, before everything else: what an earlier incarnation left is taken up.
struct Begin {};
/// A member's first hello to this incarnation: how far its workers are in which generation.
struct AgentArrived {
  HostId host;
  protocol::Hello hello;
};
/// Already fenced by job, group and incarnation; the machine fences the generation itself, at the
/// top of `step`. Hello and Ready do not come here.
struct FromAgent {
  HostId host;
  protocol::AgentFrame frame;
};
/// HostLost, AgentGone, HostReturned, MemberDrained, QuorumReached, QuorumImpossible, Formed,
/// CannotForm; others are ignored.
struct FromCoordinator {
  rendezvous::Command command;
};
/// `dlaunch stop`, Ctrl-C, SIGTERM to an attached viewer (`preempted`).
struct StopAsked {
  bool now = false;  ///< no checkpoint
  bool preempted = false;
  std::string reason;
};
struct CheckpointAsked {};
/// The record with this ticket is on disk.
struct Journaled {
  std::uint64_t ticket = 0;
};
/// run.db cannot be written; decisions pause until it can.
struct JournalFailed {
  std::string sentence;
};
/// The host's workers can be let in at the next step boundary, by the user's wish (`add`, `drain`).
struct RegroupAsked {
  std::string reason;
};
/// What the training data is, as hosts report it; `json` like `data` in a checkpoint's manifest.
struct DataKnown {
  std::string json;
};
/// What a host computes with, as its agent reports it: equal fingerprints give equal bits.
struct FingerprintKnown {
  HostId host;
  std::string fingerprint;
};
/// The steps of an undisturbed stretch at once: all ranks have made progress, or will, up to just
/// `until`. Said again, it replaces what was said before.
struct StepsUntil {
  Instant until;
};
/// The user takes a host out or lets it in; what follows from it the coordinator says.
struct MembershipAsked {
  HostId host;
  bool drained = false;
};
/// How a host's frames come; a further incarnation dials those that cannot dial it.
struct WayKnown {
  HostId host;
  bool over_ssh = false;
};
struct DeadlineDue {};

using Event = std::variant<Begin, AgentArrived, FromAgent, FromCoordinator, StopAsked,
                           CheckpointAsked, Journaled, JournalFailed, RegroupAsked, DataKnown,
                           FingerprintKnown, StepsUntil, MembershipAsked, WayKnown, DeadlineDue>;

}  // namespace dlaunch::supervisor::job
