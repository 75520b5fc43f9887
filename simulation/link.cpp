#include "simulation/link.h"

#include <algorithm>
#include <utility>

namespace dlaunch::simulation {
namespace {
constexpr nanoseconds kDelayMin = 50us;
constexpr nanoseconds kDelayMax = 2ms;
constexpr nanoseconds kRetransmitMax = 200ms;  // what TCP needs to notice that a cut is over
}  // namespace

std::uint64_t Link::open() {
  to_controller_.waiting.clear();
  to_host_.waiting.clear();
  open_ = true;
  return ++connection_;
}

void Link::send(Direction& direction, std::function<void()> deliver) {
  if (!open_) return;
  if (direction.cut) {
    direction.waiting.push_back(std::move(deliver));
    return;
  }
  schedule(direction, std::move(deliver));
}

void Link::schedule(Direction& direction, std::function<void()> deliver) {
  const auto due = std::max(queue_.now() + rng_.between(kDelayMin, kDelayMax), direction.last);
  direction.last = due;
  queue_.at(due, [this, &direction, number = connection_, deliver = std::move(deliver)]() mutable {
    if (number != connection_ || !open_) return;
    if (direction.cut) {
      direction.waiting.push_back(std::move(deliver));
      return;
    }
    deliver();
  });
}

void Link::cut(bool to_controller, bool to_host) {
  to_controller_.cut = to_controller_.cut || to_controller;
  to_host_.cut = to_host_.cut || to_host;
}

void Link::heal() {
  for (auto* direction : {&to_controller_, &to_host_}) {
    direction->cut = false;
    direction->last = queue_.now() + rng_.between(0ns, kRetransmitMax);
    auto waiting = std::exchange(direction->waiting, {});
    for (auto& deliver : waiting) schedule(*direction, std::move(deliver));
  }
}

}  // namespace dlaunch::simulation
