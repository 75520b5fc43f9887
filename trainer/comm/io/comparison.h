// Before a collective: are all ranks of the group about to do the same?
#pragma once

#include <cstdint>

#include "trainer/comm/io/collectives.h"
#include "trainer/comm/io/exchange.h"

namespace dlaunch::comm {

/// Sends sequence, operation, size and `shape` of this rank's call to all others. The failure, the
/// same sentence on every rank, names those that differ from the most of them, and both calls.
[[nodiscard]] CommResult<void> compare_calls(Exchange& exchange, const Stage& stage,
                                             std::uint64_t shape, Scratch& scratch);

}  // namespace dlaunch::comm
