// What the agent tells a worker by its environment.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/result.h"

namespace dlaunch::trainer {

struct Environment {
  std::string socket;            ///< DLAUNCH_SOCKET
  std::string job;               ///< DLAUNCH_JOB
  Generation generation;         ///< DLAUNCH_GENERATION
  std::string data_address;      ///< DLAUNCH_DATA_ADDRESS: where to listen
  std::uint16_t port_first = 0;  ///< DLAUNCH_PORTS, "29600-29899"; 0: not set, any port will do
  std::uint16_t port_last = 0;
  Rank rank;  ///< RANK
  std::uint32_t local_rank = 0;
  std::uint32_t world_size = 1;
  std::uint32_t local_world_size = 1;  ///< LOCAL_WORLD_SIZE: ranks of this host
  std::uint32_t pid = 0;               ///< this process
};

/// The error names every variable that is missing or no number.
[[nodiscard]] Result<Environment> read_environment();

}  // namespace dlaunch::trainer
