// Which rows of which parameters a rank keeps when ranks share a copy of the state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "trainer/comm/partition.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/sharing.h"

namespace dlaunch::trainer {

/// The rows of each parameter that the rank keeps, packed one after the other: those that the ranks
/// with the same shard write into checkpoints (trainer/checkpoint/layout.h), each its own.
[[nodiscard]] ParameterLayout shard_of(const ParameterLayout& whole, const Sharing& sharing,
                                       Rank rank);

/// Which rank of a copy keeps which values of a unit; places count from the unit's first value.
[[nodiscard]] comm::Partition partition_of(const ParameterLayout& whole, const Unit& unit,
                                           const Sharing& sharing);

}  // namespace dlaunch::trainer
