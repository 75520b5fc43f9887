// Which rows of which parameters a rank keeps when the ranks share one copy of the state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "trainer/comm/partition.h"
#include "trainer/model/parameters.h"

namespace dlaunch::trainer {

/// The rows of each parameter that this rank keeps, packed one after the other: the same rows that
/// it writes into checkpoints (trainer/checkpoint/layout.h).
[[nodiscard]] ParameterLayout shard_of(const ParameterLayout& whole, std::uint32_t world_size,
                                       Rank rank);

/// Who keeps which values of a unit; places count from the unit's first value.
[[nodiscard]] comm::Partition partition_of(const ParameterLayout& whole, const Unit& unit,
                                           std::uint32_t world_size);

}  // namespace dlaunch::trainer
