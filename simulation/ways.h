// How a simulated agent reaches its controller where it cannot dial it: through another host, or
// over the SSH connection that planted it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "simulation/connection.h"
#include "supervisor/host/control_path.h"

namespace dlaunch::simulation {

class Station;

/// What `plant` offers at the end of an SSH connection.
struct TunnelOffer {
  Station* station = nullptr;
  Instant until;  ///< of the world
  /// Before the first byte goes through; false: none does.
  std::function<void(bool passes)> taken;
};

/// The state of one life of an agent's `io/connection.cpp`; instants are of the host's clock.
struct Ways {
  static constexpr nanoseconds kDirectPauseMin = 2s;

  supervisor::host::ControlPath path;
  nanoseconds lost_after{};  ///< 0: not welcomed yet
  std::vector<protocol::Peer> relays;
  std::optional<Instant> down_since;
  Instant opened_at{}, search_due{}, direct_due{}, tunnel_first_until{};
  nanoseconds direct_pause = kDirectPauseMin;
  bool looks = false;        ///< a search is under way
  std::uint64_t timers = 0;  ///< only the newest counts
  std::uint64_t sent = 0;    ///< over the present connection

  // ---- of an agent that others ask
  struct Waiting {
    std::uint64_t number = 0;
    std::function<void(bool heard)> answer;
  };
  std::uint64_t asked = 0;
  std::vector<Waiting> waiting;  ///< for a word of the controller
  std::vector<std::weak_ptr<Connection>> relayed;
};

}  // namespace dlaunch::simulation
