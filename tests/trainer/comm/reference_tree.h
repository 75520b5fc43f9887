// The canonical tree, written as plainly as possible, to compare everything else with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dlaunch::comm {

using Values = std::vector<float>;

/// The sum of leaves [first, first + count): left half plus right half.
[[nodiscard]] inline Values reference_sum(const std::vector<Values>& leaves, std::size_t first,
                                          std::size_t count) {
  if (count == 1) return leaves[first];
  Values left = reference_sum(leaves, first, count / 2);
  const Values right = reference_sum(leaves, first + count / 2, count / 2);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = left[i] + right[i];
  return left;
}

/// The same for single doubles; the leaves are a power of two.
[[nodiscard]] inline double reference_sum(std::span<const double> leaves) {
  if (leaves.size() == 1) return leaves.front();
  const auto half = leaves.size() / 2;
  return reference_sum(leaves.first(half)) + reference_sum(leaves.subspan(half));
}

/// Values of very different size, so that another order of additions gives other bits.
[[nodiscard]] inline std::vector<Values> uneven_leaves(std::size_t leaves, std::size_t values) {
  std::vector<Values> all(leaves, Values(values));
  std::uint64_t state = 88172645463325252ULL;
  for (Values& leaf : all) {
    for (float& value : leaf) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      const auto scale = static_cast<float>(1ULL << (state % 24));
      value = (static_cast<float>(state >> 40) / 8388608.0F - 1.0F) * scale;
    }
  }
  return all;
}

}  // namespace dlaunch::comm
