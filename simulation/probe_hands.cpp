#include "simulation/probe_hands.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"

namespace dlaunch::simulation {

namespace agent = supervisor::host;

namespace {
constexpr nanoseconds kRoundTrip = 300us;
}  // namespace

void ProbeHands::know(protocol::Peers peers, nanoseconds lost_after) {
  wake();
  peers_.clear();
  for (const auto& peer : peers.peers()) peers_.emplace_back(peer.host(), peer.probe_port());
  (void)perform(machine_.step(own_now(), agent::PeersGiven{std::move(peers), lost_after}), false);
  asleep_ = false;
  calm_ = 0;
  arm();
}

void ProbeHands::wake() {
  calm_ = 0;
  if (!std::exchange(asleep_, false) || !hands_.runs()) return;
  (void)perform(machine_.step(own_now(), agent::ProbeDue{}), true);
  arm();
}

void ProbeHands::stalled() {
  (void)perform(machine_.step(own_now(), agent::ProbingStalled{}), false);
  asleep_ = false;
  calm_ = 0;
  arm();
}

void ProbeHands::arm() {
  const auto due = machine_.next_deadline();
  if (!due) return;
  queue_.at(clock_.world(*due), [weak = weak_from_this(), timer = ++timers_] {
    const auto self = weak.lock();
    if (self && timer == self->timers_ && self->hands_.runs()) self->round();
  });
}

void ProbeHands::round() {
  const bool all = perform(machine_.step(own_now(), agent::ProbeDue{}), false);
  calm_ = all ? calm_ + 1 : 0;
  asleep_ = calm_ > kCalmRounds;
  if (!asleep_) arm();
}

bool ProbeHands::perform(std::vector<agent::ProbeCommand> commands, bool at_once) {
  bool all = true;
  std::vector<agent::SendProbe> coming;
  for (auto& command : commands) {
    std::visit(Overloaded{[&](const agent::SendProbe& c) {
                            if (at_once) return answered(c.host, c.number);
                            if (is_answered(c.host)) {
                              coming.push_back(c);
                            } else {
                              all = false;
                            }
                          },
                          [&](agent::ReportPaths& c) { hands_.report(std::move(c.report)); }},
               command);
  }
  if (coming.empty()) return all;
  queue_.after(kRoundTrip, [weak = weak_from_this(), coming = std::move(coming)] {
    const auto self = weak.lock();
    for (const auto& [host, number] : coming) {
      if (self && self->hands_.runs()) self->answered(host, number);
    }
  });
  return all;
}

bool ProbeHands::is_answered(HostId host) const {
  const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                 [host](const auto& entry) { return entry.first == host; });
  return peer != peers_.end() && hands_.answers(peer->first, peer->second);
}

void ProbeHands::answered(HostId host, std::uint64_t number) {
  (void)perform(machine_.step(own_now(), agent::ProbeAnswered{host, number}), false);
}

}  // namespace dlaunch::simulation
