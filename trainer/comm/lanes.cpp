#include "trainer/comm/lanes.h"

#include <bit>

#include "base/check.h"

namespace dlaunch::comm {

std::uint32_t lanes_for(std::uint32_t world_size) {
  DL_CHECK(world_size >= 1 && world_size <= kWorldSizeMax, "a mesh has 1 to 4,096 ranks");
  return std::bit_ceil(world_size);
}

bool logical_batches_fit(std::uint32_t logical_batches, std::uint32_t world_size) {
  return std::has_single_bit(logical_batches) && logical_batches <= kLogicalBatchesMax &&
         logical_batches >= lanes_for(world_size);
}

TreeNode lanes_of_rank(std::uint32_t world_size, Rank rank) {
  DL_CHECK(rank.value < world_size, "ranks are dense from 0");
  const std::uint32_t doubled = lanes_for(world_size) - world_size;
  if (rank.value < doubled) return {2 * rank.value, 2};
  return {doubled + rank.value, 1};
}

Rank rank_of_lane(std::uint32_t world_size, std::uint32_t lane) {
  const std::uint32_t lanes = lanes_for(world_size);
  DL_CHECK(lane < lanes, "lanes are dense from 0");
  const std::uint32_t doubled = lanes - world_size;
  return Rank{lane < 2 * doubled ? lane / 2 : lane - doubled};
}

std::uint32_t rounds_for(std::uint32_t logical_batches, std::uint32_t world_size) {
  DL_CHECK(logical_batches_fit(logical_batches, world_size),
           "logical batches are a power of two and at least the number of lanes");
  return logical_batches / lanes_for(world_size);
}

TreeNode micro_batches_of_round(std::uint32_t logical_batches, std::uint32_t world_size,
                                std::uint32_t round, Rank rank) {
  DL_CHECK(round < rounds_for(logical_batches, world_size), "rounds are dense from 0");
  const TreeNode lanes = lanes_of_rank(world_size, rank);
  return {round * lanes_for(world_size) + lanes.first, lanes.count};
}

TreeNode micro_batches_of_rank(std::uint32_t logical_batches, std::uint32_t world_size, Rank rank) {
  const std::uint32_t rounds = rounds_for(logical_batches, world_size);
  const TreeNode lanes = lanes_of_rank(world_size, rank);
  return {lanes.first * rounds, lanes.count * rounds};
}

bool shard_size_fits(std::uint32_t world_size, std::uint32_t shard_size) {
  if (shard_size == world_size) return true;
  return std::has_single_bit(shard_size) && world_size % shard_size == 0;
}

}  // namespace dlaunch::comm
