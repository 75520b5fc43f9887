#include "trainer/parallel/sharing.h"

#include <bit>
#include <string>

namespace dlaunch::trainer {

Result<Sharing> make_sharing(std::uint32_t world_size, std::uint32_t shard_size) {
  if (shard_size == world_size) return Sharing{world_size, shard_size};
  const auto refused = [&](const std::string& why) {
    return failure(std::errc::invalid_argument,
                   "sharing the state among " + std::to_string(shard_size) + " of " +
                       std::to_string(world_size) + " ranks: " + why +
                       "; set [trainer] shard_size, or `workers` of the hosts");
  };
  if (shard_size == 0 || world_size % shard_size != 0) {
    return refused("the ranks are no whole number of such copies");
  }
  if (!std::has_single_bit(shard_size)) {
    return refused("a copy needs a power of two of ranks, so that all sums have the same order");
  }
  return Sharing{world_size, shard_size};
}

}  // namespace dlaunch::trainer
