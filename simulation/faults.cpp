// The faults that a seed brings, one after the other, each healed before the budget would forbid
// it.
#include <string>

#include "simulation/world.h"

namespace dlaunch::simulation {

void World::inject() {
  if (outcome_.code || faults_left_ == 0) return;
  --faults_left_;
  queue_.after(scenario_.fault_every / 2 + rng_.between(0ns, scenario_.fault_every),
               [this] { inject(); });
  const auto id = HostId{static_cast<std::uint32_t>(rng_.below(hosts_.size()))};
  auto& host = *hosts_.at(id);
  if (!host.up()) return;
  const auto name = "h" + std::to_string(id.value);
  const auto heal_after = rng_.between(100ms, 15s);
  switch (rng_.below(6)) {
    case 0:
    case 1:
      if (host.workers().empty()) return;
      trace("fault: kill a worker on " + name);
      return host.kill_worker(host.workers().begin()->first, 9);
    case 2:
      trace("fault: kill the agent on " + name);
      return host.kill_agent();
    case 3:
      trace("fault: " + name + " loses power");
      host.crash();
      queue_.after(heal_after, [&host] { host.reboot(); });
      return;
    case 4: {
      trace("fault: " + name + " is cut off");
      host.link().cut(true, true);
      queue_.after(heal_after, [&host] { host.link().heal(); });
      return;
    }
    default: {
      const bool inbound = rng_.chance(50);
      trace("fault: " + name + " is cut off one way");
      host.link().cut(!inbound, inbound);
      queue_.after(heal_after, [&host] { host.link().heal(); });
      return;
    }
  }
}

}  // namespace dlaunch::simulation
