#include "launcher/controller/standing_orders.h"

#include <algorithm>

namespace dlaunch::launcher::controller {

void StandingOrders::note(const supervisor::job::Send& send) {
  const auto kind = send.body.body_case();
  if (kind == protocol::ControllerFrame::kEvidenceAcknowledged) return;
  if (send.generation > generation_) {
    generation_ = send.generation;
    orders_.clear();
  }
  if (send.generation < generation_) return;
  if (kind == protocol::ControllerFrame::kAbort) orders_.clear();  // the others are void with it
  orders_[{kind, send.hosts}] = {++count_, send};
}

std::vector<protocol::ControllerFrame> StandingOrders::for_host(HostId host) const {
  std::map<std::uint64_t, protocol::ControllerFrame> ordered;
  for (const auto& [key, order] : orders_) {
    const auto& hosts = order.second.hosts;
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) {
      ordered.emplace(order.first, order.second.body);
    }
  }
  std::vector<protocol::ControllerFrame> frames;
  for (auto& [number, frame] : ordered) frames.push_back(std::move(frame));
  return frames;
}

}  // namespace dlaunch::launcher::controller
