// What the agent looks at before its host counts as ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

struct SelfCheckInput {
  std::string known_hashes;     ///< file of this user's jobs on this host; empty: nothing is kept
  std::string scratch;          ///< the job's directory on this host
  std::string data_address;     ///< given in the hosts file, or empty
  std::string data_interface;   ///< likewise
  std::string control_address;  ///< our own end of the connection to the controller
};
struct SelfCheck {
  protocol::Ready ready;
  std::string data_interface;  ///< that has the data address; empty: loopback or unknown
};

/// Looks at everything and reports every failure, each with its cause and the next step. Hashes
/// files: blocks for as long as their disk needs.
[[nodiscard]] SelfCheck check_self(const protocol::JobSpec& job, const SelfCheckInput& input);

}  // namespace dlaunch::supervisor::host
