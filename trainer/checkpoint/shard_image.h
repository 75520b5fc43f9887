// The bytes of one rank's shard file, planned before they are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

/// Where each piece of the shard comes from; points into the views that it was planned from.
struct ShardPlan {
  std::string head;
  std::vector<std::span<const std::byte>> pieces;  ///< in file order, after the head
  std::uint64_t bytes = 0;                         ///< of the whole file
};

/// The rows of `rank` of each tensor, in the order of their names. Fails when a view does not hold
/// them, a name appears twice or a shape cannot be.
[[nodiscard]] Result<ShardPlan> plan_shard(std::span<const TensorView> tensors,
                                           std::uint32_t world_size, Rank rank);
/// `into` has at least `plan.bytes`.
void copy_shard(const ShardPlan& plan, std::span<std::byte> into);

}  // namespace dlaunch::checkpoint
