// What happens to the launch: orders of the controller and reports of the planter.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "base/ids.h"
#include "launcher/launch/cause.h"

namespace dlaunch::launcher::launch {

/// Plant every host, all in parallel.
struct StartAll {
  bool again = false;  ///< agents that an earlier controller has planted may be there
};
/// The host's agent is gone or lost: dial again after the first back-off until one says hello.
struct Replant {
  HostId host;
  std::string reason;
  bool at_once = false;  ///< its agent waits for it
};
/// How far an attempt has come; each step once and in this order.
enum class Stage {
  connected,  ///< authenticated
  started,    ///< the agent's process runs and dials back
};
struct PlantProgress {
  HostId host;
  std::uint64_t attempt = 0;
  Stage stage = Stage::connected;
};
struct PlantFailed {
  HostId host;
  std::uint64_t attempt = 0;
  Cause cause = Cause::agent_failed;
  std::string sentence;
};
/// The agent says that it was welcomed; the SSH connection is closed.
struct Planted {
  HostId host;
  std::uint64_t attempt = 0;
};
/// An authenticated hello of the host's agent, planted now or still there from before.
struct HelloSeen {
  HostId host;
};
/// The job is over: nothing is dialled any more.
struct StopAll {};
struct DeadlineDue {};

using Event = std::variant<StartAll, Replant, PlantProgress, PlantFailed, Planted, HelloSeen,
                           StopAll, DeadlineDue>;

}  // namespace dlaunch::launcher::launch
