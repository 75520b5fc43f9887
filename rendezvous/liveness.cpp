#include "rendezvous/liveness.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"

namespace dlaunch::rendezvous {

Instant Liveness::since(const Seen& seen) const {
  if (DL_MUTANT("one_way_cut_not_seen")) return seen.frame;
  return std::min(seen.frame, seen.acknowledged + heartbeat_);
}

const Liveness::Host* Liveness::find(HostId host) const {
  return host.value < hosts_.size() && hosts_[host.value].watched ? &hosts_[host.value] : nullptr;
}
Liveness::Host* Liveness::find(HostId host) {
  return const_cast<Host*>(std::as_const(*this).find(host));
}

void Liveness::take_out(HostId id, const Host& host) {
  (host.suspect ? silent_ : quiet_).erase({host.key, id});
  held_.erase(id);
}

void Liveness::arrange(HostId id, Host& host) {
  take_out(id, host);
  host.key = since(host.seen);
  (host.suspect ? silent_ : quiet_).insert({host.key, id});
}

void Liveness::watch(HostId host, Instant now) {
  forget(host);
  if (host.value >= hosts_.size()) hosts_.resize(host.value + 1);
  auto& watched = hosts_[host.value];
  watched = {true, false, {now, now}, {}};
  ++watched_;
  arrange(host, watched);
}

void Liveness::forget(HostId host) {
  auto* const found = find(host);
  if (found == nullptr) return;
  take_out(host, *found);
  suspects_.erase(host);
  found->watched = false;
  --watched_;
}

bool Liveness::heard(HostId host, Instant now, std::optional<Instant> acknowledged_sent_at) {
  auto* const found = find(host);
  if (found == nullptr) return false;
  auto& seen = found->seen;
  seen.frame = std::max(seen.frame, now);  // what is vouched for lies ahead
  if (acknowledged_sent_at) seen.acknowledged = std::max(seen.acknowledged, *acknowledged_sent_at);
  if (!found->suspect) return false;  // it is looked at when its key is due
  arrange(host, *found);
  if (since(seen) + lost_after_ / 2 <= now) return false;
  take_out(host, *found);
  suspects_.erase(host);
  found->suspect = false;
  arrange(host, *found);
  return true;
}

void Liveness::quiet_until(HostId host, Instant until) {
  auto* const found = find(host);
  if (found == nullptr) return;
  found->seen = {until, until};
  arrange(host, *found);
}

std::vector<HostId> Liveness::reset(Instant now) {
  std::vector<HostId> cleared(suspects_.begin(), suspects_.end());
  quiet_.clear();
  silent_.clear();
  suspects_.clear();
  held_.clear();
  for (std::uint32_t id = 0; id < hosts_.size(); ++id) {
    auto& host = hosts_[id];
    if (!host.watched) continue;
    host.suspect = false;
    host.seen = {std::max(host.seen.frame, now), std::max(host.seen.acknowledged, now)};
    arrange(HostId{id}, host);
  }
  return cleared;
}

std::vector<HostId> Liveness::newly_suspect(Instant now) {
  std::vector<HostId> found;
  std::vector<HostId> moved;
  // Those that are due within a heartbeat, too, so that a deadline is due at most once in one.
  for (auto entry = quiet_.begin();
       entry != quiet_.end() && entry->first + lost_after_ / 2 <= now + heartbeat_;) {
    const auto id = entry->second;
    const auto silent_since = since(hosts_[id.value].seen);
    const bool suspect = silent_since + lost_after_ / 2 <= now;
    if (suspect || silent_since != entry->first) {
      (suspect ? found : moved).push_back(id);
      entry = quiet_.erase(entry);
    } else {
      ++entry;
    }
  }
  for (const auto id : moved) arrange(id, hosts_[id.value]);
  std::sort(found.begin(), found.end());
  for (const auto id : found) {
    hosts_[id.value].suspect = true;
    suspects_.insert(id);
    arrange(id, hosts_[id.value]);
  }
  return found;
}

void Liveness::hold(HostId host) {
  const auto* const found = find(host);
  if (found == nullptr || !found->suspect || held_.contains(host)) return;
  silent_.erase({found->key, host});
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
  const auto* const found = find(host);
  if (found == nullptr) return std::nullopt;
  return since(found->seen);
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
