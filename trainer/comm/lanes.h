// Which rank computes which micro-batch, so that any number of ranks sums the same binary tree.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace dlaunch::comm {

/// Leaves [first, first + count) of the canonical tree: `count` is a power of two and divides
/// `first`, so this is one complete node.
struct TreeNode {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// Not more ranks in one mesh: bounds sockets and the products below.
constexpr std::uint32_t kWorldSizeMax = 4096;
constexpr std::uint32_t kLogicalBatchesMax = 1u << 20;

/// The next power of two: each lane sums one micro-batch of a round.
[[nodiscard]] std::uint32_t lanes_for(std::uint32_t world_size);
/// A power of two that gives every lane at least one micro-batch.
[[nodiscard]] bool logical_batches_fit(std::uint32_t logical_batches, std::uint32_t world_size);

/// The lanes of a rank: two aligned ones for the first (lanes - ranks) ranks, one for the others.
[[nodiscard]] TreeNode lanes_of_rank(std::uint32_t world_size, Rank rank);
[[nodiscard]] Rank rank_of_lane(std::uint32_t world_size, std::uint32_t lane);

/// In rounds (FSDP): round r holds micro-batches [r * lanes, (r + 1) * lanes), one per lane.
[[nodiscard]] std::uint32_t rounds_for(std::uint32_t logical_batches, std::uint32_t world_size);
[[nodiscard]] TreeNode micro_batches_of_round(std::uint32_t logical_batches,
                                              std::uint32_t world_size, std::uint32_t round,
                                              Rank rank);

/// In one block (DDP): the contiguous micro-batches under this rank's lanes, for any number of
/// ranks. A rank folds its block locally (TreeFold) and one all-reduce per step does the rest.
[[nodiscard]] TreeNode micro_batches_of_rank(std::uint32_t logical_batches,
                                             std::uint32_t world_size, Rank rank);

/// In blocks (HSDP): summing within each block of `shard_size` ranks and then over the blocks gives
/// the tree of all ranks. True if the size divides the ranks and is a power of two: the first
/// (lanes - ranks) ranks, which have two lanes, are then whole blocks, and each block is one node.
[[nodiscard]] bool shard_size_fits(std::uint32_t world_size, std::uint32_t shard_size);

}  // namespace dlaunch::comm
