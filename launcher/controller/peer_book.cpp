#include "launcher/controller/peer_book.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
  auto& known = hosts_[host];
  auto& peer = known.peer;
  known.present = true;
  change(now);
  peer.set_probe_port(facts.probe_port());
  if (known.version > 0 && peer.name() == name && peer.address() == facts.data_address() &&
      peer.relay_port() == facts.relay_port()) {
    return;
  }
  ++known.version;
  peer.set_host(host.value);
  peer.set_name(name);
  peer.set_address(facts.data_address());
  peer.set_relay_port(facts.relay_port());
}

void PeerBook::gone(Instant now, HostId host) {
  auto& known = hosts_[host];
  known.sent.reset();
  if (std::exchange(known.present, false)) change(now);
}

void PeerBook::greeted(Instant now, HostId host) {
  auto& known = hosts_[host];
  known.sent.reset();
  if (known.present) change(now);
}

std::vector<PeerBook::Line> PeerBook::list_for(const std::vector<HostId>& present,
                                               std::size_t at) const {
  std::vector<Line> list;
  const auto host = present[at];
  const auto add = [&](std::size_t place, bool probed) {
    const auto id = present[place % present.size()];
    const bool listed = id == host || std::any_of(list.begin(), list.end(), [id](const Line& line) {
                          return line.host == id;
                        });
    const auto& known = hosts_.at(id);
    if (!listed) list.push_back({id, probed ? known.peer.probe_port() : 0, known.version});
  };
  const auto others = present.size() - 1;
  for (std::size_t i = 1; i <= std::min(kProbed, others); ++i) add(at + i, true);
  if (others <= kProbed) return list;
  // By number, not by count: a host that comes or goes changes few lists.
  const auto span = present.back().value + 1;
  for (const auto distance : {span / 2, span / 3}) {
    const auto far =
        std::lower_bound(present.begin(), present.end(), HostId{(host.value + distance) % span});
    add(static_cast<std::size_t>(far - present.begin()), false);
  }
  return list;
}

protocol::Peers PeerBook::written(const std::vector<Line>& list) const {
  protocol::Peers peers;
  peers.set_interval_ms(static_cast<std::uint32_t>(std::max<nanoseconds>(interval_, 1ms) / 1ms));
  for (const auto& line : list) {
    auto& peer = *peers.add_peers();
    peer = hosts_.at(line.host).peer;
    peer.set_probe_port(line.probe_port);
  }
  return peers;
}

std::vector<std::pair<HostId, protocol::Peers>> PeerBook::take(Instant now) {
  std::vector<std::pair<HostId, protocol::Peers>> lists;
  if (!due_ || now < *due_) return lists;
  due_.reset();
  std::vector<HostId> present;
  for (const auto& [host, known] : hosts_) {
    if (known.present) present.push_back(host);
  }
  for (std::size_t at = 0; at < present.size(); ++at) {
    auto list = list_for(present, at);
    auto& sent = hosts_.at(present[at]).sent;
    if (sent == list) continue;
    lists.emplace_back(present[at], written(list));
    sent = std::move(list);
  }
  return lists;
}

}  // namespace dlaunch::launcher::controller
