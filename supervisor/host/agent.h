// The host's agent as a pure machine: it is told what happened and answers what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/endpoints.h"
#include "supervisor/host/command.h"
#include "supervisor/host/event.h"

namespace dlaunch::supervisor::host {

/// Who this agent is; from the bootstrap it was planted with.
struct Identity {
  std::string job;
  HostId host;
  std::string name;
  std::string build;
  std::string boot_id;
  std::uint64_t agent = 0;  ///< differs for each agent process on this host
  std::uint32_t pid = 0;
  bool first = false;       ///< nothing of this job can be on this host yet
  nanoseconds lease = 60s;  ///< until a Welcome says otherwise
  bool stop_on_lease_end = true;
};

/// Owned by one driver and used on its thread only; holds no handle to the world.
class Agent {
 public:
  /// `reader`: of the lists of endpoints; many agents in one process may share what they read.
  Agent(Identity identity, Instant now, protocol::EndpointReader reader = protocol::read_endpoints);
  ~Agent();
  Agent(Agent&&) noexcept;
  Agent& operator=(Agent&&) noexcept;

  [[nodiscard]] std::vector<Command> step(Instant now, const Event& event);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::supervisor::host
