// Block b is for validation where the share of the first b + 1 blocks reaches the next whole
// number.
#include "trainer/data/split.h"

#include "base/check.h"

namespace dlaunch::trainer {

DataSplit::DataSplit(std::uint64_t windows, std::uint64_t validation_per_mille)
    : windows_(windows), per_mille_(validation_per_mille) {
  DL_CHECK(per_mille_ < kPerMille, "something is left to train on");
  const auto whole = windows_ / kBlockWindows;
  const auto rest = windows_ % kBlockWindows;  // a block of its own
  validation_windows_ = validation_blocks(whole) * kBlockWindows;
  if (validation_blocks(whole + 1) > validation_blocks(whole)) validation_windows_ += rest;
}

std::uint64_t DataSplit::training_window(std::uint64_t index) const {
  if (per_mille_ == 0) return index;
  const auto wanted = index / kBlockWindows;
  // The block with `wanted` training blocks before it that is one itself.
  std::uint64_t low = wanted, high = windows_ / kBlockWindows;
  while (low < high) {
    const auto middle = low + (high - low) / 2;
    if (middle + 1 - validation_blocks(middle + 1) > wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low * kBlockWindows + index % kBlockWindows;
}

std::uint64_t DataSplit::validation_window(std::uint64_t index) const {
  const auto wanted = index / kBlockWindows;
  const auto block = ((wanted + 1) * kPerMille + per_mille_ - 1) / per_mille_ - 1;
  return block * kBlockWindows + index % kBlockWindows;
}

}  // namespace dlaunch::trainer
