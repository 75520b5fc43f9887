#include "trainer/parallel/sharing.h"

#include <string>

#include "trainer/comm/lanes.h"

namespace dlaunch::trainer {

Result<Sharing> make_sharing(std::uint32_t world_size, std::uint32_t shard_size) {
  if (comm::shard_size_fits(world_size, shard_size)) return Sharing{world_size, shard_size};
  const auto refused = [&](const std::string& why) {
    return failure(std::errc::invalid_argument,
                   "sharing the state among " + std::to_string(shard_size) + " of " +
                       std::to_string(world_size) + " ranks: " + why +
                       "; set [trainer] shard_size, or `workers` of the hosts");
  };
  if (shard_size == 0 || world_size % shard_size != 0) {
    return refused("the ranks are no whole number of such copies");
  }
  return refused("a copy needs a power of two of ranks, so that all sums have the same order");
}

CopyGroups split_into_copies(comm::Communicator& communicator, const Sharing& sharing) {
  CopyGroups groups;
  groups.copy = communicator.split("copy", [&](Rank rank) { return sharing.copy_of(rank); });
  groups.copies =
      communicator.split("copies", [&](Rank rank) { return sharing.shard_of(rank).value; });
  return groups;
}

}  // namespace dlaunch::trainer
