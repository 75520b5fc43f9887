// What happens to a job's controller, from every side.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "launcher/launch/event.h"
#include "protocol/agent_wire.pb.h"
#include "supervisor/job/event.h"

namespace dlaunch::launcher::controller {

/// A frame of an authenticated connection. `connection` tells a host's connections apart;
/// `acknowledged_sent_at` is when we sent the frame that it acknowledges.
struct AgentFrameCame {
  HostId host;
  std::uint64_t connection = 0;
  std::optional<Instant> acknowledged_sent_at;
  protocol::AgentFrame frame;
};
struct AgentConnectionClosed {
  HostId host;
  std::uint64_t connection = 0;
  std::string reason;
};
/// The heartbeats of an undisturbed stretch at once. With a host: its frames and acknowledgements
/// have come, or will come, up to just `until`. Without: no beat of ours is due before `until`.
struct QuietUntil {
  std::optional<HostId> host;
  Instant until;
};
/// Planting reports (launcher/launch/event.h).
struct LaunchReported {
  launch::Event event;
};
/// Stop, checkpoint, journal and the like (supervisor/job/event.h).
struct ForJob {
  supervisor::job::Event event;
};
struct DrainAsked {
  HostId host;
};
struct AddAsked {
  HostId host;
};
/// The controller's own clock jumped.
struct Stalled {
  nanoseconds gap{};
};
struct Begin {};
struct DeadlineDue {};

using Event = std::variant<AgentFrameCame, AgentConnectionClosed, QuietUntil, LaunchReported,
                           ForJob, DrainAsked, AddAsked, Stalled, Begin, DeadlineDue>;

}  // namespace dlaunch::launcher::controller
