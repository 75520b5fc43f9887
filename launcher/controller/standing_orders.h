// What was ordered in the present generation, for a host whose connection broke meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"
#include "supervisor/job/command.h"

namespace dlaunch::launcher::controller {

/// Keeps the newest order of each kind; agents carry out repeated orders once, so sending all of
/// them again to the same agent after a reconnect is safe. Bounded by the number of kinds.
class StandingOrders {
 public:
  void note(const supervisor::job::Send& send);
  /// In the order in which they were first given.
  [[nodiscard]] std::vector<protocol::ControllerFrame> for_host(HostId host) const;
  [[nodiscard]] Generation generation() const { return generation_; }

 private:
  Generation generation_;
  std::uint64_t count_ = 0;
  std::map<int, std::pair<std::uint64_t, supervisor::job::Send>> orders_;  ///< by kind of body
};

}  // namespace dlaunch::launcher::controller
