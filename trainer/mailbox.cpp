// Turns the agent's messages into orders for the training thread.
#include "trainer/mailbox.h"

#include <utility>

#include "base/overloaded.h"
#include "trainer/comm/lanes.h"

namespace dlaunch::trainer {

namespace worker = protocol::worker;

void Mailbox::deliver(const protocol::AgentMessage& message) {
  const std::lock_guard lock(mutex_);
  if (message.generation < generation_) return;
  std::visit(Overloaded{
                 [&](const worker::Assign& assign) {
                   enter(message.generation);
                   assignment_ = complete(message.generation, assign);
                 },
                 [&](const worker::Go&) { go_ = true; },
                 [&](const worker::Abort& abort) {
                   generation_ = message.generation;
                   abort_flag_->set(abort.reason);
                   abort_unanswered_ = true;
                   assignment_.reset();
                   go_ = false;
                 },
                 [&](const worker::CheckpointAt&) { ++checkpoints_asked_; },
                 // A later stop may give up the checkpoint, and may not ask for one again.
                 [&](const worker::Stop& stop) {
                   stop_ = StopAsked{stop.checkpoint && (!stop_ || stop_->checkpoint)};
                 },
                 [](const worker::Committed&) {},
                 [&](const worker::Endpoints& part) { keep(message.generation, part); },
             },
             message.body);
  changed_.notify_all();
}

/// What is beyond the largest job is not kept: the assignment then names too few, and is refused.
void Mailbox::keep(Generation generation, const worker::Endpoints& part) {
  auto& early = early_endpoints_.endpoints;
  if (std::exchange(early_generation_, generation) != generation) early.clear();
  if (early.size() + part.endpoints.size() > comm::kWorldSizeMax) return;
  early.insert(early.end(), part.endpoints.begin(), part.endpoints.end());
}

worker::Assign Mailbox::complete(Generation generation, worker::Assign assign) {
  auto early = std::exchange(early_endpoints_.endpoints, {});
  if (early_generation_ != generation || early.empty()) return assign;
  early.insert(early.end(), assign.endpoints.begin(), assign.endpoints.end());
  assign.endpoints = std::move(early);
  return assign;
}

void Mailbox::enter(Generation generation) {
  abort_flag_->set("a later assignment has come");
  abort_flag_ = std::make_shared<comm::AbortFlag>();
  generation_ = generation;
  go_ = false;
  abort_unanswered_ = false;
  checkpoints_met_ = checkpoints_asked_ = 0;
}

Generation Mailbox::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}
std::shared_ptr<comm::AbortFlag> Mailbox::abort_flag() const {
  const std::lock_guard lock(mutex_);
  return abort_flag_;
}

template <class Ready>
Order Mailbox::wait(milliseconds limit, Ready ready) {
  std::unique_lock lock(mutex_);
  std::optional<Order> order;
  changed_.wait_for(lock, limit, [&] {
    order = ready();
    return order.has_value();
  });
  return order ? std::move(*order) : Order{TimedOut{}};
}

Order Mailbox::wait_parked(milliseconds limit) {
  return wait(limit, [this]() -> std::optional<Order> {
    if (std::exchange(abort_unanswered_, false)) return AbortAsked{};
    if (assignment_) return Assigned{generation_, *std::exchange(assignment_, std::nullopt)};
    if (stop_) return *stop_;
    return std::nullopt;
  });
}

Order Mailbox::wait_go(milliseconds limit) {
  return wait(limit, [this]() -> std::optional<Order> {
    // Whether an abort or a further assignment: this generation is over, wait_parked says how.
    if (abort_flag_->is_set() || assignment_) return AbortAsked{};
    if (go_) return GoAhead{};
    if (stop_) return *stop_;
    return std::nullopt;
  });
}

Requests Mailbox::requests() const {
  const std::lock_guard lock(mutex_);
  return {checkpoints_asked_ > checkpoints_met_, stop_.has_value(), stop_ && stop_->checkpoint};
}

void Mailbox::met_checkpoint() {
  const std::lock_guard lock(mutex_);
  ++checkpoints_met_;
}

}  // namespace dlaunch::trainer
