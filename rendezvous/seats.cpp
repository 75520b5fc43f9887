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
  count();
}

void Seats::count() {
  seated_ = {holders_.begin(), holders_.end()};
  present_ = static_cast<std::size_t>(std::count_if(
      seated_.begin(), seated_.end(), [this](HostId host) { return fit_.contains(host); }));
}

void Seats::restore(const std::vector<HostId>& holders) {
  if (holders.size() == holders_.size()) holders_ = holders;
  count();
}

void Seats::note_fit(HostId host, bool fit) {
  const bool changed = fit ? fit_.insert(host).second : fit_.erase(host) > 0;
  if (!changed || !seated(host)) return;
  present_ = fit ? present_ + 1 : present_ - 1;
}

std::size_t Seats::size(const std::set<HostId>& without) const {
  auto present = present_;
  auto others = fit_.size() - present_;
  for (const auto host : without) {
    if (fit_.contains(host)) --(seated(host) ? present : others);
  }
  const bool replace = spare_first_ || present < hosts_min_;
  if (replace) present += std::min(others, holders_.size() - present);
  present -= present % hosts_step_;
  return present < hosts_min_ ? 0 : present;
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
  if (!seating.replaced.empty()) count();
}

}  // namespace dlaunch::rendezvous
