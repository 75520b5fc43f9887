// The communicator of a group of a mesh, whatever its links are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "trainer/comm/communicator.h"
#include "trainer/comm/io/operation_queue.h"

namespace dlaunch::comm {

class GroupCommunicator final : public Communicator {
 public:
  /// Of all ranks; `links`: what `links_sentence` says.
  GroupCommunicator(std::shared_ptr<OperationQueue> queue, std::string links);
  /// The one of all ranks ends what is in progress and closes the connections; that of a part waits
  /// for its own operations.
  ~GroupCommunicator() override;

  [[nodiscard]] Rank rank() const override { return Rank{calls_->group.self}; }
  [[nodiscard]] std::uint32_t world_size() const override { return calls_->group.size(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(
      const std::string& name, const std::function<std::uint32_t(Rank)>& colour_of) override;

  [[nodiscard]] CommResult<Ticket> start_all_reduce(std::span<float> buffer) override;
  [[nodiscard]] CommResult<Ticket> start_reduce_scatter(std::span<float> buffer,
                                                        const Partition& partition) override;
  [[nodiscard]] CommResult<Ticket> start_all_gather(std::span<float> buffer,
                                                    const Partition& partition) override;
  [[nodiscard]] CommResult<void> wait(Ticket ticket) override { return queue_->wait(ticket); }

  [[nodiscard]] CommResult<void> all_reduce(std::span<float> buffer) override;
  [[nodiscard]] CommResult<void> reduce_scatter(std::span<float> buffer,
                                                const Partition& partition) override;
  [[nodiscard]] CommResult<void> all_gather(std::span<float> buffer,
                                            const Partition& partition) override;
  [[nodiscard]] CommResult<Scalars> all_reduce_scalars(const Scalars& mine) override;
  [[nodiscard]] CommResult<void> broadcast(Rank root, std::span<std::byte> bytes) override;
  [[nodiscard]] CommResult<void> barrier() override;
  [[nodiscard]] CommResult<void> all_to_all(ManyBytes send, ManyRooms receive) override;
  [[nodiscard]] CommResult<void> send(Rank to, std::span<const std::byte> bytes) override;
  [[nodiscard]] CommResult<void> receive(Rank from, std::span<std::byte> bytes) override;

  [[nodiscard]] std::uint64_t bytes_sent() const override {
    return queue_->exchange().bytes_sent();
  }
  [[nodiscard]] double collective_seconds() const override { return queue_->recorder().seconds(); }
  [[nodiscard]] CollectiveState collective_state() const override {
    return queue_->recorder().state();
  }
  [[nodiscard]] bool somebody_has_left() const override { return queue_->somebody_has_left(); }
  [[nodiscard]] std::optional<CommFailure> failure() const override { return queue_->failure(); }
  [[nodiscard]] std::string links_sentence() const override { return links_; }

 private:
  GroupCommunicator(std::shared_ptr<OperationQueue> queue, std::string links, Group group);
  [[nodiscard]] CommResult<Ticket> start(const Work& work);

  const std::shared_ptr<OperationQueue> queue_;
  const std::string links_;
  const std::shared_ptr<GroupCalls> calls_;
  Ticket newest_;  ///< of those that this group has started; 0: none
};

}  // namespace dlaunch::comm
