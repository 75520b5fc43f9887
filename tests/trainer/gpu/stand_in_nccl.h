// The calls of NCCL that are used: ranks are threads, sums are added in the order of the ranks.
#pragma once

namespace dlaunch::comm {

/// Communicators that were ended outside of a group call, where real ones may wait for each other.
[[nodiscard]] int aborts_one_by_one();

}  // namespace dlaunch::comm
