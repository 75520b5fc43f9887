// What was ordered in the present generation, for a host whose connection broke meanwhile.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"
#include "supervisor/job/command.h"

namespace dlaunch::launcher::controller {

/// Keeps the newest order of each kind to the same hosts; agents carry out repeated orders once, so
/// sending all of them again to the same agent after a reconnect is safe. Bounded by kinds × hosts.
class StandingOrders {
 public:
  void note(const supervisor::job::Send& send);
  /// In the order in which they were first given.
  [[nodiscard]] std::vector<protocol::ControllerFrame> for_host(HostId host) const;
  [[nodiscard]] Generation generation() const { return generation_; }

 private:
  void forget();

  Generation generation_;
  std::uint64_t count_ = 0;
  struct Order {
    std::uint64_t number = 0;
    std::set<HostId> hosts;
    protocol::ControllerFrame body;
  };
  using Key = std::pair<int, std::vector<HostId>>;  ///< kind of body, hosts
  std::map<Key, Order> shared_;                     ///< a few, each to many
  std::map<HostId, std::map<int, Order>> of_one_;   ///< by kind; some for each
};

}  // namespace dlaunch::launcher::controller
