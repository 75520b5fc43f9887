#include "trainer/comm/tree_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "trainer/comm/lanes.h"

namespace dlaunch::comm {
namespace {

/// All nodes of one block stay in the first-level cache while they are added.
constexpr std::size_t kBlockValues = 2048;

template <class T>
void add_to(std::span<T> into, std::span<const T> from) {
  DL_CHECK(into.size() == from.size(), "only equal lengths are added");
  // Bare pointers: a bounds check per value would keep the loop from becoming vectors.
  T* const sums = into.data();
  const T* const values = from.data();
  const std::size_t count = into.size();
  for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
}

/// One addition of the plan: nodes[into] += nodes[from].
struct Addition {
  std::size_t into;
  std::size_t from;
};

/// Appends the additions of the subtree in canonical order and says who holds its sum. Which of
/// two children takes the sum does not change its bits: addition of two floats is commutative.
std::size_t plan_subtree(std::uint32_t world_size, TreeNode node, std::size_t result,
                         std::vector<Addition>& plan) {
  const Rank rank = rank_of_lane(world_size, node.first);
  if (lanes_of_rank(world_size, rank) == node) return rank.value;
  const std::uint32_t half = node.count / 2;
  const std::size_t left = plan_subtree(world_size, {node.first, half}, result, plan);
  const std::size_t right = plan_subtree(world_size, {node.first + half, half}, result, plan);
  if (right == result) {
    plan.push_back({right, left});
    return right;
  }
  plan.push_back({left, right});
  return left;
}

template <class T>
void sum_nodes(std::span<const std::span<T>> nodes, std::size_t result) {
  DL_CHECK(result < nodes.size(), "the result is one of the nodes");
  const auto world_size = static_cast<std::uint32_t>(nodes.size());
  std::vector<Addition> plan;
  plan.reserve(nodes.size());
  const std::size_t holder = plan_subtree(world_size, {0, lanes_for(world_size)}, result, plan);
  DL_CHECK(holder == result, "each addition prefers the node that is to hold the result");

  const std::size_t count = nodes[result].size();
  for (std::size_t first = 0; first < count; first += kBlockValues) {
    const std::size_t length = std::min(kBlockValues, count - first);
    for (const Addition& addition : plan) {
      add_to<T>(nodes[addition.into].subspan(first, length),
                nodes[addition.from].subspan(first, length));
    }
  }
}

}  // namespace

void TreeFold::add(std::span<const float> leaf) {
  DL_CHECK(leaf.size() == count_, "every leaf has as many values as the fold");
  if (levels_.empty()) levels_.resize(1);
  if (leaves_ % 2 == 0) {
    levels_[0].assign(leaf.begin(), leaf.end());
  } else {
    add_to<float>(levels_[0], leaf);
    // A complete pair moves up as the carry of a binary counter does.
    for (std::size_t level = 1;; ++level) {
      if (level == levels_.size()) levels_.emplace_back(count_);
      if ((leaves_ >> level) % 2 == 0) {
        std::swap(levels_[level], levels_[level - 1]);
        break;
      }
      add_to<float>(levels_[level], levels_[level - 1]);
    }
  }
  ++leaves_;
}

void TreeFold::finish(std::span<float> leaf) {
  DL_CHECK(leaf.size() == count_, "every leaf has as many values as the fold");
  DL_CHECK(std::has_single_bit(leaves_ + 1), "only a power of two of leaves is one node");
  for (std::size_t level = 0; (leaves_ >> level) != 0; ++level) add_to<float>(leaf, levels_[level]);
  ++leaves_;
}

std::span<float> TreeFold::sum() {
  DL_CHECK(std::has_single_bit(leaves_), "only a power of two of leaves is one node");
  return levels_[static_cast<std::size_t>(std::countr_zero(leaves_))];
}

void add_values(std::span<float> into, std::span<const std::byte> values) {
  DL_CHECK(values.size() == into.size_bytes(), "only equal lengths are added");
  float* const sums = into.data();
  const std::byte* const from = values.data();
  const std::size_t count = into.size();
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    sums[i] += value;
  }
}

void sum_rank_nodes(std::span<const std::span<float>> nodes, std::size_t result) {
  sum_nodes<float>(nodes, result);
}

void sum_rank_nodes(std::span<const std::span<double>> nodes, std::size_t result) {
  sum_nodes<double>(nodes, result);
}

}  // namespace dlaunch::comm
