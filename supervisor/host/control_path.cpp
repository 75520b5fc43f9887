#include "supervisor/host/control_path.h"

#include <algorithm>

namespace dlaunch::supervisor::host {

void ControlPath::set(nanoseconds heartbeat, nanoseconds lost_after) {
  heartbeat_ = heartbeat;
  lost_after_ = lost_after;
}

void ControlPath::opened(Instant now) {
  open_ = true;
  outstanding_.clear();
  stalled(now);
}

void ControlPath::closed() { open_ = false; }

void ControlPath::stalled(Instant now) { frame_ = acknowledged_ = now; }

void ControlPath::sent(std::uint64_t number, Instant now) {
  outstanding_[number] = now;
  if (outstanding_.size() > kOutstandingMax) outstanding_.erase(outstanding_.begin());
}

void ControlPath::heard(std::uint64_t acknowledged, Instant now) {
  frame_ = now;
  const auto end = outstanding_.upper_bound(acknowledged);
  if (end != outstanding_.begin()) {
    acknowledged_ = std::max(acknowledged_, std::prev(end)->second);
  }
  outstanding_.erase(outstanding_.begin(), end);
  // Nothing of ours waits for an answer: the frame alone says that both ways are open.
  if (outstanding_.empty()) acknowledged_ = now;
}

std::optional<Instant> ControlPath::silent_at() const {
  if (!open_ || lost_after_ == 0ns) return std::nullopt;
  // Acknowledgements travel with the controller's beat, and ours with our own.
  return std::min(frame_, acknowledged_ + 2 * heartbeat_) + lost_after_ / 2;
}

bool ControlPath::silent(Instant now) const {
  const auto due = silent_at();
  return due && now >= *due;
}

}  // namespace dlaunch::supervisor::host
