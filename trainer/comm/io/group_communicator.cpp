#include "trainer/comm/io/group_communicator.h"

#include <utility>

#include "base/check.h"

namespace dlaunch::comm {
namespace {

void check_fit(std::span<float> buffer, const Partition& partition, std::uint32_t world_size) {
  DL_CHECK(partition.world_size() == world_size, "each rank has its part, if an empty one");
  DL_CHECK(partition.end() <= buffer.size(), "what is owned lies in the buffer");
}

}  // namespace

GroupCommunicator::GroupCommunicator(std::shared_ptr<OperationQueue> queue, std::string links)
    : GroupCommunicator(queue, std::move(links), queue->exchange().everybody()) {}

GroupCommunicator::GroupCommunicator(std::shared_ptr<OperationQueue> queue, std::string links,
                                     Group group)
    : queue_(std::move(queue)),
      links_(std::move(links)),
      calls_(std::make_shared<GroupCalls>(GroupCalls{std::move(group), 0, {}, {}})) {}

GroupCommunicator::~GroupCommunicator() {
  if (calls_->group.number == 0) {
    queue_->close();
  } else if (newest_.sequence > 0) {
    static_cast<void>(queue_->wait(newest_));
  }
}

std::unique_ptr<Communicator> GroupCommunicator::split(
    const std::string& name, const std::function<std::uint32_t(Rank)>& colour_of) {
  Group part;
  part.number = queue_->next_group_number();
  part.name = name;
  const std::uint32_t own = colour_of(rank());
  for (std::uint32_t member = 0; member < world_size(); ++member) {
    if (colour_of(Rank{member}) != own) continue;
    if (member == rank().value) part.self = part.size();
    part.members.push_back(calls_->group.members[member]);
  }
  // Not make_unique: the constructor is nobody else's.
  return std::unique_ptr<Communicator>(new GroupCommunicator(queue_, links_, std::move(part)));
}

CommResult<Ticket> GroupCommunicator::start(const Work& work) {
  const auto ticket = queue_->start(calls_, work);
  if (ticket) newest_ = *ticket;
  return ticket;
}

CommResult<Ticket> GroupCommunicator::start_all_reduce(std::span<float> buffer) {
  return start(AllReduce{buffer});
}

CommResult<Ticket> GroupCommunicator::start_reduce_scatter(std::span<float> buffer,
                                                           const Partition& partition) {
  check_fit(buffer, partition, world_size());
  return start(ReduceScatter{buffer, &partition});
}

CommResult<Ticket> GroupCommunicator::start_all_gather(std::span<float> buffer,
                                                       const Partition& partition) {
  check_fit(buffer, partition, world_size());
  return start(AllGather{buffer, &partition});
}

CommResult<void> GroupCommunicator::all_reduce(std::span<float> buffer) {
  return queue_->run(calls_, AllReduce{buffer});
}

CommResult<void> GroupCommunicator::reduce_scatter(std::span<float> buffer,
                                                   const Partition& partition) {
  check_fit(buffer, partition, world_size());
  return queue_->run(calls_, ReduceScatter{buffer, &partition});
}

CommResult<void> GroupCommunicator::all_gather(std::span<float> buffer,
                                               const Partition& partition) {
  check_fit(buffer, partition, world_size());
  return queue_->run(calls_, AllGather{buffer, &partition});
}

CommResult<Scalars> GroupCommunicator::all_reduce_scalars(const Scalars& mine) {
  DL_CHECK(mine.sums.size() <= kScalarSumsMax, "many numbers belong into a buffer");
  Scalars total;
  auto done = queue_->run(calls_, ReduceScalars{&mine, &total});
  return std::move(done).map([&] { return std::move(total); });
}

CommResult<void> GroupCommunicator::broadcast(Rank root, std::span<std::byte> bytes) {
  DL_CHECK(root.value < world_size(), "the root is one of the ranks");
  return queue_->run(calls_, Broadcast{root, bytes});
}

CommResult<void> GroupCommunicator::barrier() { return queue_->run(calls_, Barrier{}); }

CommResult<void> GroupCommunicator::all_to_all(ManyBytes send, ManyRooms receive) {
  DL_CHECK(send.size() == world_size() && receive.size() == world_size(), "one place per rank");
  DL_CHECK(send[rank().value].size() == receive[rank().value].size(),
           "what a rank sends to itself fits");
  return queue_->run(calls_, AllToAll{send, receive});
}

CommResult<void> GroupCommunicator::send(Rank to, std::span<const std::byte> bytes) {
  DL_CHECK(to.value < world_size() && to != rank(), "messages go to another rank of the group");
  return queue_->run(calls_, SendMessage{to, bytes});
}

CommResult<void> GroupCommunicator::receive(Rank from, std::span<std::byte> bytes) {
  DL_CHECK(from.value < world_size() && from != rank(), "messages come from another rank");
  return queue_->run(calls_, ReceiveMessage{from, bytes});
}

}  // namespace dlaunch::comm
