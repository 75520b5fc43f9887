// Carries out the operations of all groups of a mesh, one after the other in the order of the
// calls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/time.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/group.h"
#include "trainer/comm/io/collectives.h"
#include "trainer/comm/io/exchange.h"
#include "trainer/comm/io/work.h"

namespace dlaunch::comm {

/// A group and how far it is. Counted when operations are called, by the caller's thread.
struct GroupCalls {
  Group group;
  std::uint64_t collectives = 0;
  std::vector<std::uint64_t> sent;      ///< messages to each member
  std::vector<std::uint64_t> received;  ///< and from each
};

struct QueueSettings {
  milliseconds operation_limit =
      30min;              ///< starts when the operation begins, not when it is called
  bool compares = false;  ///< before each collective, what all ranks are about to do
};

class OperationQueue {
 public:
  OperationQueue(std::unique_ptr<Exchange> exchange, QueueSettings settings);
  /// Ends what is in progress and closes the connections.
  ~OperationQueue();

  /// Every group that is cut out gets the next number.
  [[nodiscard]] std::uint32_t next_group_number() { return ++groups_; }
  /// On the queue's thread.
  [[nodiscard]] CommResult<Ticket> start(std::shared_ptr<GroupCalls> group, Work work);
  [[nodiscard]] CommResult<void> wait(Ticket ticket);
  /// On this thread if nothing else is under way: handing it over would take longer than a small
  /// operation.
  [[nodiscard]] CommResult<void> run(std::shared_ptr<GroupCalls> group, Work work);
  /// Any thread: every operation fails from now on.
  void close();

  [[nodiscard]] const Exchange& exchange() const { return *exchange_; }
  [[nodiscard]] const Recorder& recorder() const { return recorder_; }
  [[nodiscard]] std::optional<CommFailure> failure() const;
  /// False while an operation is under way: it looks itself.
  [[nodiscard]] bool somebody_has_left() const;

 private:
  struct Item {
    std::shared_ptr<GroupCalls> group;
    std::uint64_t sequence = 0;
    Work work;
  };

  [[nodiscard]] static Item number(std::shared_ptr<GroupCalls> group, Work work);
  [[nodiscard]] Ticket enqueue(Item item);
  [[nodiscard]] CommResult<void> wait(std::unique_lock<std::mutex>& lock, Ticket ticket);
  /// With the lock, which it lets go of meanwhile.
  void carry_out_one(std::unique_lock<std::mutex>& lock, const Item& item);
  [[nodiscard]] CommResult<void> carry_out(const Item& item);
  void serve();

  const std::unique_ptr<Exchange> exchange_;
  const QueueSettings settings_;
  Recorder recorder_;
  Scratch scratch_;           ///< of the thread that carries out
  std::uint32_t groups_ = 0;  ///< of the caller's thread

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> pending_;
  std::uint64_t started_ = 0;  ///< number of the newest operation called
  std::uint64_t done_ = 0;     ///< and of the newest one done
  bool busy_ = false;          ///< one of the threads carries out an operation
  bool closing_ = false;
  std::optional<CommFailure> failure_;
  std::thread thread_;
};

}  // namespace dlaunch::comm
