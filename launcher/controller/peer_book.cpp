#include "launcher/controller/peer_book.h"

#include <algorithm>
#include <cmath>

namespace dlaunch::launcher::controller {

namespace {

// An agent probes two; a report of more is cut off.
constexpr std::size_t kWordsMax = 16;

nanoseconds duration_of(double seconds) {
  return nanoseconds(std::llround(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

}  // namespace

rendezvous::PathsReported words_of(HostId prober, const protocol::PathReport& report) {
  rendezvous::PathsReported event{prober, {}};
  for (const auto& path : report.paths()) {
    if (event.words.size() >= kWordsMax) break;
    event.words.push_back(
        {HostId{path.host()}, path.answers(), duration_of(path.silent_seconds())});
  }
  return event;
}

void PeerBook::change(Instant now) {
  if (!due_) due_ = now + kGather;
}

void PeerBook::present(Instant now, HostId host, const std::string& name,
                       const protocol::Facts& facts) {
  if (facts.probe_port() == 0 && facts.relay_port() == 0) return gone(now, host);
  protocol::Peer peer;
  peer.set_host(host.value);
  peer.set_name(name);
  peer.set_address(facts.data_address());
  peer.set_probe_port(facts.probe_port());
  peer.set_relay_port(facts.relay_port());
  present_[host] = std::move(peer);
  change(now);
}

void PeerBook::gone(Instant now, HostId host) {
  sent_.erase(host);
  if (present_.erase(host) > 0) change(now);
}

void PeerBook::greeted(Instant now, HostId host) {
  sent_.erase(host);
  if (present_.contains(host)) change(now);
}

protocol::Peers PeerBook::list_for(HostId host) const {
  protocol::Peers peers;
  peers.set_interval_ms(static_cast<std::uint32_t>(std::max<nanoseconds>(interval_, 1ms) / 1ms));
  std::set<HostId> listed{host};
  const auto list = [&](std::map<HostId, protocol::Peer>::const_iterator entry, bool probed) {
    if (entry == present_.end()) entry = present_.begin();
    if (!listed.insert(entry->first).second) return std::next(entry);
    auto& peer = *peers.add_peers();
    peer = entry->second;
    if (!probed) peer.set_probe_port(0);
    return std::next(entry);
  };
  auto next = present_.upper_bound(host);
  const auto others = present_.size() - 1;
  for (std::size_t i = 0; i < std::min(kProbed, others); ++i) next = list(next, true);
  if (others <= kProbed) return peers;
  // By number, not by count: a host that comes or goes changes few lists.
  const auto span = present_.rbegin()->first.value + 1;
  for (const auto distance : {span / 2, span / 3}) {
    list(present_.lower_bound(HostId{(host.value + distance) % span}), false);
  }
  return peers;
}

std::vector<std::pair<HostId, protocol::Peers>> PeerBook::take(Instant now) {
  std::vector<std::pair<HostId, protocol::Peers>> lists;
  if (!due_ || now < *due_) return lists;
  due_.reset();
  for (const auto& [host, peer] : present_) {
    auto list = list_for(host);
    auto text = list.SerializeAsString();
    auto& sent = sent_[host];
    if (sent == text) continue;
    sent = std::move(text);
    lists.emplace_back(host, std::move(list));
  }
  return lists;
}

}  // namespace dlaunch::launcher::controller
