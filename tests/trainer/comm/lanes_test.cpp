#include "trainer/comm/lanes.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace dlaunch::comm {
namespace {

constexpr std::uint32_t kWorldSizesTried = 24;

void expect_complete_node(TreeNode node) {
  EXPECT_TRUE(std::has_single_bit(node.count));
  EXPECT_EQ(node.first % node.count, 0U);
}

TEST(Lanes, AreTheNextPowerOfTwo) {
  EXPECT_EQ(lanes_for(1), 1U);
  EXPECT_EQ(lanes_for(2), 2U);
  EXPECT_EQ(lanes_for(3), 4U);
  EXPECT_EQ(lanes_for(8), 8U);
  EXPECT_EQ(lanes_for(9), 16U);
  EXPECT_EQ(lanes_for(24), 32U);
}

TEST(Lanes, AreEachHeldByOneRankThatHoldsOneNode) {
  for (std::uint32_t ranks = 1; ranks <= kWorldSizesTried; ++ranks) {
    std::uint32_t next = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const TreeNode node = lanes_of_rank(ranks, Rank{rank});
      expect_complete_node(node);
      EXPECT_EQ(node.first, next);
      EXPECT_LE(node.count, 2U);
      for (std::uint32_t lane = node.first; lane < node.first + node.count; ++lane) {
        EXPECT_EQ(rank_of_lane(ranks, lane), Rank{rank});
      }
      next += node.count;
    }
    EXPECT_EQ(next, lanes_for(ranks));
  }
}

TEST(Lanes, GiveTheFirstRanksTwoWhenThereAreTooFewRanks) {
  EXPECT_EQ(lanes_of_rank(3, Rank{0}), (TreeNode{0, 2}));
  EXPECT_EQ(lanes_of_rank(3, Rank{1}), (TreeNode{2, 1}));
  EXPECT_EQ(lanes_of_rank(3, Rank{2}), (TreeNode{3, 1}));
}

TEST(MicroBatches, AreComputedOnExactlyOneRankInRounds) {
  for (std::uint32_t ranks = 1; ranks <= kWorldSizesTried; ++ranks) {
    for (std::uint32_t batches = lanes_for(ranks); batches <= 128; batches *= 2) {
      std::multiset<std::uint32_t> computed;
      for (std::uint32_t round = 0; round < rounds_for(batches, ranks); ++round) {
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          const TreeNode node = micro_batches_of_round(batches, ranks, round, Rank{rank});
          expect_complete_node(node);
          EXPECT_EQ(node.first / lanes_for(ranks), round);
          for (std::uint32_t i = 0; i < node.count; ++i) computed.insert(node.first + i);
        }
      }
      EXPECT_EQ(computed.size(), batches);
      EXPECT_EQ(std::set(computed.begin(), computed.end()).size(), batches);
      EXPECT_EQ(*computed.rbegin(), batches - 1);
    }
  }
}

TEST(MicroBatches, AreComputedOnExactlyOneRankInBlocks) {
  for (std::uint32_t ranks = 1; ranks <= kWorldSizesTried; ++ranks) {
    for (std::uint32_t batches = lanes_for(ranks); batches <= 128; batches *= 2) {
      std::uint32_t next = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const TreeNode node = micro_batches_of_rank(batches, ranks, Rank{rank});
        expect_complete_node(node);
        EXPECT_EQ(node.first, next);
        next += node.count;
      }
      EXPECT_EQ(next, batches);
    }
  }
}

TEST(LogicalBatches, FitWhenAPowerOfTwoCoversTheLanes) {
  EXPECT_TRUE(logical_batches_fit(8, 8));
  EXPECT_TRUE(logical_batches_fit(8, 5));
  EXPECT_TRUE(logical_batches_fit(1, 1));
  EXPECT_FALSE(logical_batches_fit(4, 5));
  EXPECT_FALSE(logical_batches_fit(6, 2));
  EXPECT_FALSE(logical_batches_fit(0, 1));
  EXPECT_FALSE(logical_batches_fit(kLogicalBatchesMax * 2, 1));
}

}  // namespace
}  // namespace dlaunch::comm
