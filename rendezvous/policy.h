// What the coordinator is told once, at the start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::rendezvous {

struct HostEntry {
  HostId id;
  std::string name;
  bool spare = false;
};

struct Policy {
  std::vector<HostEntry> hosts;  ///< in file order
  std::uint32_t hosts_min = 1;
  std::uint32_t hosts_max = 1;
  std::uint32_t hosts_step = 1;  ///< a generation has a multiple of this many hosts
  nanoseconds heartbeat = 100ms;
  nanoseconds lost_after = 600ms;    ///< counted from the last frame heard
  nanoseconds successor_limit = 2s;  ///< a closed connection's new agent says hello within this
  nanoseconds stall_gap = 250ms;     ///< a larger gap in our own clock clears all suspicion
  nanoseconds partition_grace = 30s;
  nanoseconds readmit = 5s;  ///< after a restart of the controller nobody is convicted
  nanoseconds start_timeout = 10min;
  bool spare_first = true;
  bool quarantine = true;
};

}  // namespace dlaunch::rendezvous
