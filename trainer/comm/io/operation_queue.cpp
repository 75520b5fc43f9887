#include "trainer/comm/io/operation_queue.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/io/thread.h"
#include "base/overloaded.h"
#include "trainer/comm/io/comparison.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {

OperationQueue::OperationQueue(std::unique_ptr<Exchange> exchange, QueueSettings settings)
    : exchange_(std::move(exchange)), settings_(settings) {
  thread_ = thread_without_signals([this] { serve(); });
  ::pthread_setname_np(thread_.native_handle(), "dlaunch-comm");
}

OperationQueue::~OperationQueue() {
  close();
  thread_.join();
}

void OperationQueue::close() {
  exchange_->close();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
}

OperationQueue::Item OperationQueue::number(std::shared_ptr<GroupCalls> group, Work work) {
  const auto next = [&](std::vector<std::uint64_t>& counts, Rank peer) {
    counts.resize(group->group.size());
    return ++counts[peer.value];
  };
  const std::uint64_t sequence = std::visit(
      Overloaded{
          [&](const SendMessage& message) { return next(group->sent, message.to); },
          [&](const ReceiveMessage& message) { return next(group->received, message.from); },
          [&](const auto&) { return ++group->collectives; },
      },
      work);
  return {std::move(group), sequence, work};
}

Ticket OperationQueue::enqueue(Item item) {
  DL_CHECK(pending_.size() < kOperationsPendingMax, "operations are waited for");
  pending_.push_back(std::move(item));
  changed_.notify_all();
  return Ticket{++started_};
}

CommResult<Ticket> OperationQueue::start(std::shared_ptr<GroupCalls> group, Work work) {
  Item item = number(std::move(group), work);
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  return enqueue(std::move(item));
}

CommResult<void> OperationQueue::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  return wait(lock, ticket);
}

CommResult<void> OperationQueue::wait(std::unique_lock<std::mutex>& lock, Ticket ticket) {
  DL_CHECK(ticket.sequence >= 1 && ticket.sequence <= started_, "a ticket comes from a start");
  changed_.wait(lock, [&] { return done_ >= ticket.sequence || failure_; });
  if (done_ >= ticket.sequence) return {};
  return tl::unexpected(*failure_);
}

CommResult<void> OperationQueue::run(std::shared_ptr<GroupCalls> group, Work work) {
  Item item = number(std::move(group), work);
  std::unique_lock lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  if (busy_ || !pending_.empty() || closing_) return wait(lock, enqueue(std::move(item)));
  const Ticket ticket{++started_};
  carry_out_one(lock, item);
  return wait(lock, ticket);
}

std::optional<CommFailure> OperationQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool OperationQueue::somebody_has_left() const {
  const std::lock_guard lock(mutex_);
  return !failure_ && !busy_ && pending_.empty() && exchange_->somebody_has_left();
}

void OperationQueue::carry_out_one(std::unique_lock<std::mutex>& lock, const Item& item) {
  busy_ = true;
  lock.unlock();
  const auto outcome = carry_out(item);
  if (!outcome) exchange_->leave(outcome.error());
  lock.lock();
  busy_ = false;
  if (outcome) {
    ++done_;
  } else {
    failure_ = outcome.error();
    pending_.clear();
  }
  changed_.notify_all();
}

CommResult<void> OperationQueue::carry_out(const Item& item) {
  const Group& group = item.group->group;
  const Stage stage{operation_of(item.work),
                    item.sequence,
                    0,
                    bytes_of(item.work),
                    trainer_now() + settings_.operation_limit,
                    true,
                    &group};
  Exchange& exchange = *exchange_;
  const bool counts = is_collective(item.work);
  if (counts) {
    recorder_.enter(trainer_now(), group.name, item.sequence, stage.operation, stage.total);
    if (settings_.compares) {
      if (auto same = compare_calls(exchange, stage, shape_of(item.work), scratch_); !same) {
        return same;
      }
    }
  }
  auto outcome = std::visit(
      Overloaded{
          [&](const AllReduce& reduce) {
            return comm::all_reduce(exchange, stage, reduce.buffer, scratch_);
          },
          [&](const ReduceScatter& reduce) {
            return comm::reduce_scatter(exchange, stage, reduce.buffer, *reduce.partition,
                                        scratch_);
          },
          [&](const AllGather& gather) {
            return comm::all_gather(exchange, stage, gather.buffer, *gather.partition, scratch_);
          },
          [&](const ReduceScalars& scalars) {
            auto total = comm::all_reduce_scalars(exchange, stage, *scalars.mine, scratch_);
            return std::move(total).map([&](Scalars sums) { *scalars.total = std::move(sums); });
          },
          [&](const Broadcast& broadcast) {
            return comm::broadcast(exchange, stage, broadcast.root, broadcast.bytes, scratch_);
          },
          [&](const Barrier&) { return comm::barrier(exchange, stage, scratch_); },
          [&](const AllToAll& work) {
            return comm::all_to_all(exchange, stage, work.send, work.receive, scratch_);
          },
          [&](const SendMessage& message) {
            return comm::send(exchange, stage, message.to, message.bytes, scratch_);
          },
          [&](const ReceiveMessage& message) {
            return comm::receive(exchange, stage, message.from, message.bytes, scratch_);
          },
      },
      item.work);
  if (counts && outcome) recorder_.finish(trainer_now());
  return outcome;
}

void OperationQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !busy_ && (closing_ || !pending_.empty()); });
    if (closing_) break;
    const Item item = std::move(pending_.front());
    pending_.pop_front();
    carry_out_one(lock, item);
  }
  exchange_->disconnect();
  if (!failure_) {
    failure_ = CommFailure{FailureKind::local, {{}, "the communicator was closed"}, std::nullopt};
  }
  pending_.clear();
  changed_.notify_all();
}

}  // namespace dlaunch::comm
