// The data network between all hosts: who probes whom, and which two do not reach each other.
#include <algorithm>
#include <utility>

#include "simulation/world.h"

namespace dlaunch::simulation {

void World::probes(HostId host, const protocol::Peers& peers) {
  auto& probed = probed_[host];
  for (const auto peer : probed) std::erase(probed_by_[peer], host);
  probed.clear();
  for (const auto& peer : peers.peers()) {
    if (peer.probe_port() == 0) continue;
    const HostId id{peer.host()};
    probed.push_back(id);
    auto& probers = probed_by_[id];
    probers.insert(std::upper_bound(probers.begin(), probers.end(), host), host);
  }
}

bool World::is_answered(HostId host, HostId other, std::uint32_t port) const {
  return hosts_.at(other)->probe_port() == port && reaches(host, other);
}

void World::data_path_changes(HostId host) {
  hosts_.at(host)->wake_probes();
  for (const auto prober : probed_by_[host]) hosts_.at(prober)->wake_probes();
}

void World::cut_pair(HostId one, HostId other, bool cut) {
  data_path_changes(one);
  data_path_changes(other);
  const std::pair<HostId, HostId> pair = std::minmax(one, other);
  if (cut) {
    cut_pairs_.insert(pair);
  } else if (const auto found = cut_pairs_.find(pair); found != cut_pairs_.end()) {
    cut_pairs_.erase(found);
    flush(one);
    flush(other);
  }
}

}  // namespace dlaunch::simulation
