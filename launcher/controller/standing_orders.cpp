#include "launcher/controller/standing_orders.h"

#include <utility>

namespace dlaunch::launcher::controller {

void StandingOrders::note(const supervisor::job::Send& send) {
  const auto kind = send.body.body_case();
  if (kind == protocol::ControllerFrame::kEvidenceAcknowledged) return;
  if (send.generation > generation_) {
    generation_ = send.generation;
    forget();
  }
  if (send.generation < generation_) return;
  if (kind == protocol::ControllerFrame::kAbort) forget();  // the others are void with it
  auto& order =
      send.hosts.size() == 1 ? of_one_[send.hosts.front()][kind] : shared_[{kind, send.hosts}];
  order = {++count_, {send.hosts.begin(), send.hosts.end()}, send.body};
}

void StandingOrders::forget() {
  shared_.clear();
  of_one_.clear();
}

std::vector<protocol::ControllerFrame> StandingOrders::for_host(HostId host) const {
  std::map<std::uint64_t, const protocol::ControllerFrame*> ordered;
  for (const auto& [key, order] : shared_) {
    if (order.hosts.contains(host)) ordered.emplace(order.number, &order.body);
  }
  if (const auto own = of_one_.find(host); own != of_one_.end()) {
    for (const auto& [kind, order] : own->second) ordered.emplace(order.number, &order.body);
  }
  std::vector<protocol::ControllerFrame> frames;
  for (const auto& [number, frame] : ordered) frames.push_back(*frame);
  return frames;
}

}  // namespace dlaunch::launcher::controller
