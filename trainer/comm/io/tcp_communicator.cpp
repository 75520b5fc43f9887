#include "trainer/comm/io/tcp_communicator.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "base/io/thread.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

Operation operation_of(std::size_t index) {
  constexpr Operation kInOrderOfWork[] = {Operation::all_reduce, Operation::scalars,
                                          Operation::broadcast, Operation::barrier};
  return kInOrderOfWork[index];
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

CommResult<void> TcpCommunicator::carry_out(const Work& work, std::uint64_t sequence) {
  Stage stage{operation_of(work.index()), sequence, 0, 0, trainer_now() + operation_limit_, true};
  if (const auto* reduce = std::get_if<AllReduce>(&work)) {
    stage.total = reduce->buffer.size_bytes();
  } else if (const auto* scalars = std::get_if<ReduceScalars>(&work)) {
    stage.total = scalars->mine->sums.size() * sizeof(double);
  } else if (const auto* broadcast = std::get_if<Broadcast>(&work)) {
    stage.total = broadcast->bytes.size();
  }
  recorder_.enter(trainer_now(), sequence, stage.operation, stage.total);

  if (const auto* reduce = std::get_if<AllReduce>(&work)) {
    return comm::all_reduce(exchange_, stage, reduce->buffer, scratch_);
  }
  if (const auto* scalars = std::get_if<ReduceScalars>(&work)) {
    auto total = comm::all_reduce_scalars(exchange_, stage, *scalars->mine, scratch_);
    if (!total) return tl::unexpected(total.error());
    *scalars->total = std::move(*total);
    return {};
  }
  if (const auto* broadcast = std::get_if<Broadcast>(&work)) {
    return comm::broadcast(exchange_, stage, broadcast->root, broadcast->bytes, scratch_);
  }
  return comm::barrier(exchange_, stage, scratch_);
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
