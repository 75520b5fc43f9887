#include "trainer/comm/io/tcp_communicator.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/io/thread.h"
#include "base/overloaded.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

Operation operation_of(std::size_t index) {
  constexpr Operation kInOrderOfWork[] = {Operation::all_reduce,     Operation::scalars,
                                          Operation::broadcast,      Operation::barrier,
                                          Operation::reduce_scatter, Operation::all_gather};
  return kInOrderOfWork[index];
}

void check_fit(std::span<float> buffer, const Partition& partition, std::uint32_t world_size) {
  DL_CHECK(partition.world_size() == world_size, "each rank has its part, if an empty one");
  DL_CHECK(partition.end() <= buffer.size(), "what is owned lies in the buffer");
}

}  // namespace

TcpCommunicator::TcpCommunicator(Rank self, std::vector<Link> links, std::string group,
                                 std::shared_ptr<AbortFlag> abort, milliseconds operation_limit)
    : exchange_(self, std::move(links), abort),
      recorder_(std::move(group)),
      abort_(std::move(abort)),
      operation_limit_(operation_limit) {
  thread_ = thread_without_signals([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "dlaunch-comm");
}

TcpCommunicator::~TcpCommunicator() {
  exchange_.close();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CommResult<Ticket> TcpCommunicator::start(Work work) {
  const std::lock_guard lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  DL_CHECK(pending_.size() < kOperationsPendingMax, "operations are waited for");
  pending_.push_back(work);
  changed_.notify_all();
  return Ticket{++started_};
}

CommResult<void> TcpCommunicator::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  DL_CHECK(ticket.sequence >= 1 && ticket.sequence <= started_, "a ticket comes from a start");
  changed_.wait(lock, [&] { return done_ >= ticket.sequence || failure_; });
  if (done_ >= ticket.sequence) return {};
  return tl::unexpected(*failure_);
}

CommResult<Ticket> TcpCommunicator::start_all_reduce(std::span<float> buffer) {
  return start(AllReduce{buffer});
}

CommResult<Ticket> TcpCommunicator::start_reduce_scatter(std::span<float> buffer,
                                                         const Partition& partition) {
  check_fit(buffer, partition, world_size());
  return start(ReduceScatter{buffer, &partition});
}

CommResult<Ticket> TcpCommunicator::start_all_gather(std::span<float> buffer,
                                                     const Partition& partition) {
  check_fit(buffer, partition, world_size());
  return start(AllGather{buffer, &partition});
}

CommResult<Scalars> TcpCommunicator::all_reduce_scalars(const Scalars& mine) {
  DL_CHECK(mine.sums.size() <= kScalarSumsMax, "many numbers belong into a buffer");
  Scalars total;
  const auto ticket = start(ReduceScalars{&mine, &total});
  if (!ticket) return tl::unexpected(ticket.error());
  if (auto done = wait(*ticket); !done) return tl::unexpected(done.error());
  return total;
}

CommResult<void> TcpCommunicator::broadcast(Rank root, std::span<std::byte> bytes) {
  DL_CHECK(root.value < world_size(), "the root is one of the ranks");
  const auto ticket = start(Broadcast{root, bytes});
  if (!ticket) return tl::unexpected(ticket.error());
  return wait(*ticket);
}

CommResult<void> TcpCommunicator::barrier() {
  const auto ticket = start(Barrier{});
  if (!ticket) return tl::unexpected(ticket.error());
  return wait(*ticket);
}

std::optional<CommFailure> TcpCommunicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

/// Bytes of the whole operation, the same on every rank.
std::uint64_t TcpCommunicator::bytes_of(const Work& work) {
  return std::visit(
      Overloaded{
          [](const AllReduce& reduce) { return std::uint64_t{reduce.buffer.size_bytes()}; },
          [](const ReduceScalars& scalars) {
            return std::uint64_t{scalars.mine->sums.size() * sizeof(double)};
          },
          [](const Broadcast& broadcast) { return std::uint64_t{broadcast.bytes.size()}; },
          [](const Barrier&) { return std::uint64_t{0}; },
          [](const ReduceScatter& reduce) {
            return std::uint64_t{reduce.partition->total() * sizeof(float)};
          },
          [](const AllGather& gather) {
            return std::uint64_t{gather.partition->total() * sizeof(float)};
          },
      },
      work);
}

CommResult<void> TcpCommunicator::carry_out(const Work& work, std::uint64_t sequence) {
  const Stage stage{operation_of(work.index()),       sequence, 0, bytes_of(work),
                    trainer_now() + operation_limit_, true};
  recorder_.enter(trainer_now(), sequence, stage.operation, stage.total);
  return std::visit(
      Overloaded{
          [&](const AllReduce& reduce) {
            return comm::all_reduce(exchange_, stage, reduce.buffer, scratch_);
          },
          [&](const ReduceScalars& scalars) {
            auto total = comm::all_reduce_scalars(exchange_, stage, *scalars.mine, scratch_);
            return std::move(total).map([&](Scalars sums) { *scalars.total = std::move(sums); });
          },
          [&](const Broadcast& broadcast) {
            return comm::broadcast(exchange_, stage, broadcast.root, broadcast.bytes, scratch_);
          },
          [&](const Barrier&) { return comm::barrier(exchange_, stage, scratch_); },
          [&](const ReduceScatter& reduce) {
            return comm::reduce_scatter(exchange_, stage, reduce.buffer, *reduce.partition,
                                        scratch_);
          },
          [&](const AllGather& gather) {
            return comm::all_gather(exchange_, stage, gather.buffer, *gather.partition, scratch_);
          },
      },
      work);
}

void TcpCommunicator::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !pending_.empty(); });
    if (closing_) return;
    const Work work = pending_.front();
    const std::uint64_t sequence = done_ + 1;
    lock.unlock();
    const auto outcome = carry_out(work, sequence);
    if (outcome) {
      recorder_.finish(trainer_now());
    } else {
      exchange_.leave(outcome.error());
    }
    lock.lock();
    pending_.pop_front();
    if (!outcome) {
      failure_ = outcome.error();
      pending_.clear();
      changed_.notify_all();
      return;
    }
    done_ = sequence;
    changed_.notify_all();
  }
}

}  // namespace dlaunch::comm
