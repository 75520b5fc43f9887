// How many ranks share one copy of the state, and who of them keeps which part.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "base/result.h"
#include "trainer/comm/communicator.h"

namespace dlaunch::trainer {

/// Groups of `shard_size` neighbouring ranks share one copy each: DDP 1, FSDP all ranks, HSDP those
/// of a host.
struct Sharing {
  std::uint32_t world_size = 1;
  std::uint32_t shard_size = 1;

  [[nodiscard]] std::uint32_t copies() const { return world_size / shard_size; }
  /// Of a rank within its copy, and which copy that is.
  [[nodiscard]] Rank shard_of(Rank rank) const { return Rank{rank.value % shard_size}; }
  [[nodiscard]] std::uint32_t copy_of(Rank rank) const { return rank.value / shard_size; }
  /// Which of `world_size` equal parts of the state a rank writes into checkpoints: one of those
  /// that it keeps, and no other rank's.
  [[nodiscard]] Rank part_of(Rank rank) const {
    return Rank{shard_of(rank).value * copies() + copy_of(rank)};
  }
};

/// Fails where the sums could not be the canonical tree's (trainer/comm/lanes.h): a copy of a part
/// of the ranks needs a power of two of them, and the ranks must be whole copies.
[[nodiscard]] Result<Sharing> make_sharing(std::uint32_t world_size, std::uint32_t shard_size);

/// A rank's groups where there are several copies.
struct CopyGroups {
  std::unique_ptr<comm::Communicator> copy;    ///< of the ranks that share this rank's
  std::unique_ptr<comm::Communicator> copies;  ///< of those that keep the same shard of all
};
/// All ranks of the mesh call it.
[[nodiscard]] CopyGroups split_into_copies(comm::Communicator& communicator,
                                           const Sharing& sharing);

}  // namespace dlaunch::trainer
