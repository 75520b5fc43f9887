#include "rendezvous/liveness.h"

#include <algorithm>

#include "base/mutant.h"

namespace dlaunch::rendezvous {

Instant Liveness::since(const Seen& seen) const {
  if (DL_MUTANT("one_way_cut_not_seen")) return seen.frame;
  return std::min(seen.frame, seen.acknowledged + heartbeat_);
}

void Liveness::move(HostId host, const Seen& seen) {
  auto& present = watched_.at(host);
  held_.erase(host);
  auto& order = suspects_.contains(host) ? silent_ : quiet_;
  order.erase({since(present), host});
  present = seen;
  order.insert({since(present), host});
}

void Liveness::watch(HostId host, Instant now) {
  forget(host);
  const Seen seen{now, now};
  watched_.emplace(host, seen);
  quiet_.insert({since(seen), host});
}

void Liveness::forget(HostId host) {
  const auto found = watched_.find(host);
  if (found == watched_.end()) return;
  quiet_.erase({since(found->second), host});
  silent_.erase({since(found->second), host});
  suspects_.erase(host);
  held_.erase(host);
  watched_.erase(found);
}

bool Liveness::heard(HostId host, Instant now, std::optional<Instant> acknowledged_sent_at) {
  const auto found = watched_.find(host);
  if (found == watched_.end()) return false;
  Seen seen = found->second;
  seen.frame = std::max(seen.frame, now);  // what is vouched for lies ahead
  if (acknowledged_sent_at) seen.acknowledged = std::max(seen.acknowledged, *acknowledged_sent_at);
  move(host, seen);
  if (!suspects_.contains(host) || since(seen) + lost_after_ / 2 <= now) return false;
  silent_.erase({since(seen), host});
  suspects_.erase(host);
  quiet_.insert({since(seen), host});
  return true;
}

void Liveness::quiet_until(HostId host, Instant until) {
  if (watched_.contains(host)) move(host, Seen{until, until});
}

std::vector<HostId> Liveness::reset(Instant now) {
  std::vector<HostId> cleared(suspects_.begin(), suspects_.end());
  quiet_.clear();
  silent_.clear();
  suspects_.clear();
  held_.clear();
  for (auto& [host, seen] : watched_) {
    seen = Seen{std::max(seen.frame, now), std::max(seen.acknowledged, now)};
    quiet_.insert({since(seen), host});
  }
  return cleared;
}

std::vector<HostId> Liveness::newly_suspect(Instant now) {
  std::vector<HostId> hosts;
  while (!quiet_.empty() && quiet_.begin()->first + lost_after_ / 2 <= now) {
    const auto entry = *quiet_.begin();
    quiet_.erase(quiet_.begin());
    silent_.insert(entry);
    suspects_.insert(entry.second);
    hosts.push_back(entry.second);
  }
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

void Liveness::hold(HostId host) {
  const auto found = watched_.find(host);
  if (found == watched_.end() || !suspects_.contains(host)) return;
  if (held_.contains(host)) return;
  silent_.erase({since(found->second), host});
  held_.insert(host);
}

std::vector<HostId> Liveness::expired(Instant now) const {
  std::vector<HostId> hosts(held_.begin(), held_.end());
  for (const auto& [silent_since, host] : silent_) {
    if (silent_since + lost_after_ > now) break;
    hosts.push_back(host);
  }
  std::sort(hosts.begin(), hosts.end());
  return hosts;
}

std::optional<Instant> Liveness::last_heard(HostId host) const {
  const auto found = watched_.find(host);
  if (found == watched_.end()) return std::nullopt;
  return since(found->second);
}

std::optional<Instant> Liveness::next_suspect() const {
  if (quiet_.empty()) return std::nullopt;
  return quiet_.begin()->first + lost_after_ / 2;
}

std::optional<Instant> Liveness::next_expiry() const {
  if (silent_.empty()) return std::nullopt;
  return silent_.begin()->first + lost_after_;
}

}  // namespace dlaunch::rendezvous
