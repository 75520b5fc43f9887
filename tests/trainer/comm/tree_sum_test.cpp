#include "trainer/comm/tree_sum.h"

#include <gtest/gtest.h>

#include "tests/trainer/comm/reference_tree.h"
#include "trainer/comm/lanes.h"

namespace dlaunch::comm {
namespace {

TEST(ReferenceTree, GivesOtherBitsThanASumInSequence) {
  const auto leaves = uneven_leaves(32, 64);
  Values in_sequence(64, 0.0F);
  for (const Values& leaf : leaves) {
    for (std::size_t i = 0; i < leaf.size(); ++i) in_sequence[i] += leaf[i];
  }
  EXPECT_NE(in_sequence, reference_sum(leaves, 0, 32)) << "the leaves prove nothing";
}

TEST(TreeFold, AddsAsTheTreeByIndexDoes) {
  TreeFold fold(37);
  for (const std::size_t count : {1, 2, 4, 8, 16, 64, 1, 8}) {
    const auto leaves = uneven_leaves(count, 37);
    fold.reset();
    for (const Values& leaf : leaves) fold.add(leaf);
    const auto sum = fold.sum();
    EXPECT_EQ(Values(sum.begin(), sum.end()), reference_sum(leaves, 0, count)) << count;
  }
}

TEST(TreeFold, TheLastLeafTakesTheSumInItsPlace) {
  TreeFold fold(37);
  for (const std::size_t count : {1, 2, 4, 8, 16, 64, 1, 8}) {
    auto leaves = uneven_leaves(count, 37);
    const Values expected = reference_sum(leaves, 0, count);
    fold.reset();
    for (std::size_t i = 0; i + 1 < count; ++i) fold.add(leaves[i]);
    fold.finish(leaves.back());
    EXPECT_EQ(leaves.back(), expected) << count;
    EXPECT_EQ(fold.leaves(), count);
  }
}

TEST(ReferenceSum, AddsDoublesAsTheTreeByIndexDoes) {
  const std::vector<double> values{1e16, 1.0, -1e16, 1.0};
  EXPECT_EQ(reference_sum(values), (1e16 + 1.0) + (-1e16 + 1.0));
  EXPECT_EQ(reference_sum(std::vector<double>{3.5}), 3.5);
}

TEST(SumRankNodes, EqualsTheCanonicalTreeForEveryNumberOfRanksAndEveryOwner) {
  constexpr std::uint32_t kBatches = 64;
  constexpr std::size_t kValues = 5000;
  const auto leaves = uneven_leaves(kBatches, kValues);
  const Values expected = reference_sum(leaves, 0, kBatches);
  for (std::uint32_t ranks = 1; ranks <= 24; ++ranks) {
    std::vector<Values> sums;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const TreeNode node = micro_batches_of_rank(kBatches, ranks, Rank{rank});
      sums.push_back(reference_sum(leaves, node.first, node.count));
    }
    for (const std::uint32_t owner : {0U, ranks / 2, ranks - 1}) {
      auto nodes = sums;
      std::vector<std::span<float>> spans(nodes.begin(), nodes.end());
      sum_rank_nodes(spans, owner);
      EXPECT_EQ(nodes[owner], expected) << ranks << " ranks, owner " << owner;
    }
  }
}

}  // namespace
}  // namespace dlaunch::comm
