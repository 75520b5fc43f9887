#include "supervisor/host/io/outbox.h"

#include <utility>

#include "protocol/framing.h"
#include "protocol/limits.h"
#include "protocol/wire_text.h"

namespace dlaunch::supervisor::host {
namespace {

using protocol::AgentFrame;
constexpr std::size_t kOrders = 1, kBeats = 2, kLogs = 4;
constexpr std::size_t kTakeBytes = 64 * 1024;

std::size_t urgency_of(const AgentFrame& frame) {
  switch (frame.body_case()) {
    case AgentFrame::kAbortAcknowledged:
      return 0;
    case AgentFrame::kHeartbeat:
      return kBeats;
    case AgentFrame::kEvidence:
    case AgentFrame::kWorkersGone:  // not before what explains the abort
      return 3;
    case AgentFrame::kLogLines:
      return kLogs;
    default:
      return kOrders;
  }
}

}  // namespace

bool Outbox::push(AgentFrame frame) {
  protocol::make_text_valid(frame);
  const auto urgency = urgency_of(frame);
  if (urgency == kBeats) drop_beats();
  if (urgency == kLogs) {
    const auto bytes = frame.log_lines().text().size();
    if (log_bytes_ + bytes > protocol::kLogQueueBytesMax) {
      dropped_ += frame.log_lines().dropped() + 1;
      return true;
    }
    log_bytes_ += bytes;
    frame.mutable_log_lines()->set_dropped(frame.log_lines().dropped() +
                                           std::exchange(dropped_, 0));
    waiting_[kLogs].push_back({std::move(frame), bytes});
    return true;
  }
  const auto bytes = frame.ByteSizeLong();
  if (other_bytes_ + bytes > protocol::kSendQueueBytesMax) return false;
  other_bytes_ += bytes;
  waiting_.at(urgency).push_back({std::move(frame), bytes});
  return true;
}

void Outbox::drop_beats() {
  for (const auto& beat : waiting_[kBeats]) other_bytes_ -= beat.bytes;
  waiting_[kBeats].clear();
}

bool Outbox::empty() const {
  for (const auto& queue : waiting_) {
    if (!queue.empty()) return false;
  }
  return true;
}

std::string Outbox::take(std::uint64_t acknowledged) {
  std::string bytes;
  // A hello opens each connection whatever waits beside it.
  auto& orders = waiting_[kOrders];
  const bool hello = !orders.empty() && orders.front().frame.has_hello();
  for (std::size_t i = hello ? kOrders : 0; i < waiting_.size(); ++i) {
    auto& queue = waiting_.at(i);
    while (!queue.empty() && bytes.size() < kTakeBytes) {
      auto& frame = queue.front().frame;
      (i == kLogs ? log_bytes_ : other_bytes_) -= queue.front().bytes;
      frame.set_number(++number_);
      frame.set_acknowledged(acknowledged);
      bytes += protocol::frame(frame.SerializeAsString());
      queue.pop_front();
      if (hello && i == kOrders) return bytes;
    }
  }
  return bytes;
}

void Outbox::clear() {
  for (auto& queue : waiting_) queue.clear();
  log_bytes_ = 0;
  other_bytes_ = 0;
  number_ = 0;
}

}  // namespace dlaunch::supervisor::host
