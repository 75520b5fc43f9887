#include "rendezvous/seats.h"

#include <algorithm>

#include "base/mutant.h"
#include "base/probe.h"

namespace dlaunch::rendezvous {

Seats::Seats(const Policy& policy)
    : hosts_min_(policy.hosts_min),
      hosts_step_(std::max(1U, policy.hosts_step)),
      spare_first_(policy.spare_first) {
  for (const auto& host : policy.hosts) {
    if (!host.spare && holders_.size() < policy.hosts_max) holders_.push_back(host.id);
  }
  for (const bool spare : {true, false}) {
    for (const auto& host : policy.hosts) {
      if (host.spare == spare) spares_first_.push_back(host.id);
    }
  }
}

bool Seats::seated(HostId host) const {
  return std::find(holders_.begin(), holders_.end(), host) != holders_.end();
}

void Seats::restore(const std::vector<HostId>& holders) {
  if (holders.size() == holders_.size()) holders_ = holders;
}

std::optional<Seats::Seating> Seats::judge(const std::set<HostId>& fit) const {
  const auto present = std::count_if(holders_.begin(), holders_.end(),
                                     [&](HostId host) { return fit.contains(host); });
  const bool replace = spare_first_ || static_cast<std::uint32_t>(present) < hosts_min_;
  std::set<HostId> taken(holders_.begin(), holders_.end());
  Seating seating;
  auto replacement = spares_first_.begin();  // whoever was passed over is not fit later either
  for (const auto holder : holders_) {
    if (fit.contains(holder)) {
      seating.members.push_back(holder);
      continue;
    }
    if (!replace) continue;
    replacement = std::find_if(replacement, spares_first_.end(), [&](HostId host) {
      return fit.contains(host) && !taken.contains(host);
    });
    if (replacement == spares_first_.end()) continue;
    if (!DL_MUTANT("spare_booked_twice")) taken.insert(*replacement);
    DL_PROBE("a spare takes a place");
    seating.members.push_back(*replacement);
    seating.replaced.emplace_back(holder, *replacement);
  }
  while (seating.members.size() % hosts_step_ != 0) {
    std::erase_if(seating.replaced,
                  [&](const auto& entry) { return entry.second == seating.members.back(); });
    seating.members.pop_back();
  }
  if (seating.members.empty() || seating.members.size() < hosts_min_) return std::nullopt;
  return seating;
}

void Seats::take(const Seating& seating) {
  for (const auto& [lost, replacement] : seating.replaced) {
    std::replace(holders_.begin(), holders_.end(), lost, replacement);
  }
}

}  // namespace dlaunch::rendezvous
