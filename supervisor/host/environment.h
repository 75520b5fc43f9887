// What a worker finds in its environment and on its command line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

/// One worker's place in its generation.
struct Place {
  std::string job_id;
  std::string host;
  Generation generation;
  Rank rank;
  std::uint32_t local_rank = 0;
  protocol::Prepare prepare;
  std::string master_address;
  std::uint32_t master_port = 0;
  std::string data_address;
  std::string data_interface;
};

/// All that torchrun sets (names and meaning as in PyTorch's elastic launcher) and dlaunch's own
/// DLAUNCH_*, over the job's own variables. What the user set himself stays where torchrun would
/// leave it.
[[nodiscard]] std::map<std::string, std::string> make_environment(const protocol::JobSpec& job,
                                                                  const Place& place);

/// wrap + command with the placeholders of protocol/placeholder.h replaced; other text stays as it
/// is.
[[nodiscard]] std::vector<std::string> make_argv(const protocol::JobSpec& job, const Place& place);

}  // namespace dlaunch::supervisor::host
