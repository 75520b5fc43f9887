// What the launch answers. The hands carry it out; the comment names the event that reports it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "launcher/launch/cause.h"

namespace dlaunch::launcher::launch {

/// PlantProgress, then Planted or PlantFailed with this attempt. Connecting may take
/// `connect_within`.
struct Plant {
  HostId host;
  std::uint64_t attempt = 0;
  nanoseconds connect_within{};
};
/// The attempt is dropped; what it still reports is ignored.
struct CancelPlant {
  HostId host;
  std::uint64_t attempt = 0;
};
/// An agent is there. Once per StartAll or Replant.
struct HostPlanted {
  HostId host;
};
/// Given up for now, with the sentence for the user; `retried`: dialled again later by itself.
struct HostFailed {
  HostId host;
  Cause cause = Cause::agent_failed;
  std::string sentence;
  bool retried = true;
};

using Command = std::variant<Plant, CancelPlant, HostPlanted, HostFailed>;

}  // namespace dlaunch::launcher::launch
