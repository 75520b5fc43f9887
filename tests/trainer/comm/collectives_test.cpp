#include "trainer/comm/io/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/trainer/comm/mesh_fixture.h"
#include "tests/trainer/comm/reference_tree.h"
#include "trainer/comm/lanes.h"
#include "trainer/comm/tree_sum.h"

namespace dlaunch::comm {
namespace {

/// The sum of this rank's block of micro-batches.
Values node_of(const Communicator& mesh, const std::vector<Values>& leaves) {
  const auto batches = static_cast<std::uint32_t>(leaves.size());
  const TreeNode node = micro_batches_of_rank(batches, mesh.world_size(), mesh.rank());
  return reference_sum(leaves, node.first, node.count);
}

/// Number of ranks, and how they reach each other.
using Meshes = std::tuple<std::uint32_t, LinkKind>;

class Collectives : public testing::TestWithParam<Meshes> {
 protected:
  [[nodiscard]] static std::uint32_t ranks() { return std::get<0>(GetParam()); }
  [[nodiscard]] static TestMesh mesh_of() { return TestMesh(ranks(), std::get<1>(GetParam())); }
};

std::string name_of_mesh(const testing::TestParamInfo<Meshes>& info) {
  return name_of(std::get<1>(info.param)) + "_" + std::to_string(std::get<0>(info.param));
}

class AnyLinks : public testing::TestWithParam<LinkKind> {};

std::string name_of_links(const testing::TestParamInfo<LinkKind>& info) {
  return name_of(info.param);
}

TEST_P(Collectives, ReduceToTheCanonicalTreeWhateverTheNumberOfRanks) {
  for (const std::size_t values : {0UL, 1UL, 5UL, 4099UL}) {
    const auto leaves = uneven_leaves(32, values);
    const Values expected = reference_sum(leaves, 0, 32);
    TestMesh mesh = mesh_of();
    mesh.run([&](Communicator& rank) {
      Values buffer = node_of(rank, leaves);
      const auto done = rank.all_reduce(buffer);
      ASSERT_TRUE(done) << done.error().error.text();
      EXPECT_EQ(buffer, expected);
    });
  }
}

TEST_P(Collectives, ReduceInRoundsToTheSameTree) {
  constexpr std::uint32_t kBatches = 64;
  const auto leaves = uneven_leaves(kBatches, 1000);
  const Values expected = reference_sum(leaves, 0, kBatches);
  TestMesh mesh = mesh_of();
  mesh.run([&](Communicator& rank) {
    TreeFold rounds(1000);
    for (std::uint32_t round = 0; round < rounds_for(kBatches, rank.world_size()); ++round) {
      const TreeNode node = micro_batches_of_round(kBatches, rank.world_size(), round, rank.rank());
      Values buffer = reference_sum(leaves, node.first, node.count);
      ASSERT_TRUE(rank.all_reduce(buffer));
      rounds.add(buffer);
    }
    const auto sum = rounds.sum();
    EXPECT_EQ(Values(sum.begin(), sum.end()), expected);
  });
}

/// Rows of two tensors and a hole between them; the first tensor has too few rows for many ranks.
Partition rows_partition(std::uint32_t ranks) {
  std::vector<std::vector<ValueRange>> owned(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank < 3) owned[rank].push_back({rank * 7, 7});
    const std::size_t first = 5000 * rank / ranks, end = 5000 * (rank + 1) / ranks;
    owned[rank].push_back({32 + first, end - first});
  }
  return Partition(std::move(owned));
}

TEST_P(Collectives, ReduceScatterGivesEachOwnerItsPartOfTheCanonicalTree) {
  const auto leaves = uneven_leaves(32, 5032);
  const Values expected = reference_sum(leaves, 0, 32);
  const Partition partition = rows_partition(ranks());
  TestMesh mesh = mesh_of();
  mesh.run([&](Communicator& rank) {
    Values buffer = node_of(rank, leaves);
    const auto done = rank.reduce_scatter(buffer, partition);
    ASSERT_TRUE(done) << done.error().error.text();
    for (const auto& range : partition.of(rank.rank())) {
      for (std::size_t i = range.first; i < range.first + range.count; ++i) {
        ASSERT_EQ(buffer[i], expected[i]) << i;
      }
    }
  });
}

TEST_P(Collectives, AllGatherGivesEverybodyWhatEachOwns) {
  const Partition partition = rows_partition(ranks());
  TestMesh mesh = mesh_of();
  mesh.run([&](Communicator& rank) {
    Values buffer(5040, -1.0F);
    for (const auto& range : partition.of(rank.rank())) {
      for (std::size_t i = 0; i < range.count; ++i) {
        buffer[range.first + i] = static_cast<float>(range.first + i);
      }
    }
    const auto done = rank.all_gather(buffer, partition);
    ASSERT_TRUE(done) << done.error().error.text();
    Values expected(5040, -1.0F);
    for (std::uint32_t other = 0; other < rank.world_size(); ++other) {
      for (const auto& range : partition.of(Rank{other})) {
        for (std::size_t i = range.first; i < range.first + range.count; ++i) {
          expected[i] = static_cast<float>(i);
        }
      }
    }
    EXPECT_EQ(buffer, expected) << "what nobody owns is left alone";
  });
}

TEST_P(Collectives, SendNoMoreThanTwiceTheBufferLessTheOwnShare) {
  constexpr std::size_t kValues = 100'000;
  TestMesh mesh = mesh_of();
  mesh.run([&](Communicator& rank) {
    Values buffer(kValues, 1.0F);
    const std::uint64_t before = rank.bytes_sent();
    ASSERT_TRUE(rank.all_reduce(buffer));
    const std::uint64_t sent = rank.bytes_sent() - before;
    const double bound = 2.0 * (ranks() - 1) / ranks() * kValues * sizeof(float);
    // Chunks may differ by one value, and each of the 2 (n - 1) messages has a head.
    EXPECT_LE(static_cast<double>(sent), bound + 2.0 * (ranks() - 1) * (kFrameBytes + 4));
    EXPECT_EQ(buffer.front(), static_cast<float>(ranks()));
  });
}

TEST_P(Collectives, AddScalarsInTreeOrderAndCombineFlags) {
  const std::uint32_t ranks = Collectives::ranks();
  std::vector<double> leaves;
  for (std::uint32_t i = 0; i < 32; ++i) leaves.push_back(i % 2 == 0 ? 1e17 / (i + 1) : 1.0 + i);
  const double expected = reference_sum(leaves);
  TestMesh mesh = mesh_of();
  mesh.run([&](Communicator& rank) {
    const TreeNode node = micro_batches_of_rank(32, ranks, rank.rank());
    Scalars mine;
    mine.sums = {reference_sum(std::span(leaves).subspan(node.first, node.count)), 1.0};
    mine.any_flags = std::uint64_t{1} << rank.rank().value;
    mine.all_flags = 0b11 | (rank.rank().value == ranks - 1 ? 0b100 : 0);
    const auto total = rank.all_reduce_scalars(mine);
    ASSERT_TRUE(total) << total.error().error.text();
    EXPECT_EQ(total->sums, (std::vector<double>{expected, static_cast<double>(ranks)}));
    EXPECT_EQ(total->any_flags, (std::uint64_t{1} << ranks) - 1);
    EXPECT_EQ(total->all_flags, ranks == 1 ? 0b111U : 0b11U);
  });
}

TEST_P(Collectives, BroadcastTheRootsBytesAndMeetAtBarriers) {
  TestMesh mesh = mesh_of();
  mesh.run([&](Communicator& rank) {
    for (std::uint32_t root = 0; root < rank.world_size(); ++root) {
      std::vector<std::byte> bytes(1000, static_cast<std::byte>(rank.rank().value));
      ASSERT_TRUE(rank.broadcast(Rank{root}, bytes));
      EXPECT_EQ(bytes, std::vector<std::byte>(1000, static_cast<std::byte>(root)));
      ASSERT_TRUE(rank.barrier());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Tcp, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 12, 24),
                                          testing::Values(LinkKind::tcp)),
                         name_of_mesh);
INSTANTIATE_TEST_SUITE_P(Shm, Collectives,
                         testing::Combine(testing::Values(2, 3, 4, 6, 7, 12),
                                          testing::Values(LinkKind::shm)),
                         name_of_mesh);
INSTANTIATE_TEST_SUITE_P(Mixed, Collectives,
                         testing::Combine(testing::Values(3, 4, 5, 8, 24),
                                          testing::Values(LinkKind::mixed)),
                         name_of_mesh);
INSTANTIATE_TEST_SUITE_P(Striped, Collectives,
                         testing::Combine(testing::Values(2, 3, 4, 5, 8, 24),
                                          testing::Values(LinkKind::striped)),
                         name_of_mesh);
INSTANTIATE_TEST_SUITE_P(Kinds, AnyLinks, testing::ValuesIn(kLinkKinds), name_of_links);

TEST_P(AnyLinks, AllReduceWorksInPiecesWhenTheBufferIsLargerThanTheScratch) {
  constexpr std::size_t kValues = 2 * kPieceValues + 12'345;
  TestMesh mesh(3, GetParam());
  mesh.run([&](Communicator& rank) {
    Values buffer(kValues);
    for (std::size_t i = 0; i < kValues; ++i) {
      buffer[i] = static_cast<float>((i + rank.rank().value) % 1000);
    }
    ASSERT_TRUE(rank.all_reduce(buffer));
    for (std::size_t i = 0; i < kValues; ++i) {
      const auto expected = static_cast<float>(i % 1000 + (i + 1) % 1000 + (i + 2) % 1000);
      ASSERT_EQ(buffer[i], expected) << i;
    }
  });
}

TEST_P(AnyLinks, ReduceScatterSendsHalfOfWhatAnAllReduceSends) {
  constexpr std::size_t kValues = 100'000;
  const auto partition = Partition::even(kValues, 4);
  TestMesh mesh(4, GetParam());
  mesh.run([&](Communicator& rank) {
    Values buffer(kValues, 1.0F);
    const std::uint64_t before = rank.bytes_sent();
    ASSERT_TRUE(rank.reduce_scatter(buffer, partition));
    EXPECT_EQ(rank.bytes_sent() - before, 3 * (kValues / 4 * sizeof(float) + kFrameBytes));
  });
}

TEST_P(AnyLinks, AllReduceRunsWhileTheCallerComputesAndFinishesInOrder) {
  constexpr std::size_t kBuckets = 40;
  TestMesh mesh(4, GetParam());
  mesh.run([&](Communicator& rank) {
    std::vector<Values> buckets(kBuckets, Values(1000, 1.0F));
    std::vector<Ticket> tickets;
    for (Values& bucket : buckets) {
      const auto ticket = rank.start_all_reduce(bucket);
      ASSERT_TRUE(ticket);
      tickets.push_back(*ticket);
    }
    ASSERT_TRUE(rank.wait(tickets.back()));
    for (std::size_t i = 0; i < kBuckets; ++i) {
      EXPECT_EQ(buckets[i], Values(1000, 4.0F));
      EXPECT_TRUE(rank.wait(tickets[i])) << "an older ticket is done as well";
    }
  });
}

TEST(CollectiveState, SaysWhichOperationIsNewestAndThatItIsDone) {
  TestMesh mesh(2);
  mesh.run([&](Communicator& rank) {
    EXPECT_EQ(rank.collective_state().sequence, 0U);
    Values buffer(100, 1.0F);
    ASSERT_TRUE(rank.all_reduce(buffer));
    ASSERT_TRUE(rank.barrier());
    const CollectiveState state = rank.collective_state();
    EXPECT_EQ(state.group, "main");
    EXPECT_EQ(state.sequence, 2U);
    EXPECT_FALSE(state.entered);
    ASSERT_EQ(state.recent.size(), 2U);
    EXPECT_EQ(state.recent[0].operation, Operation::all_reduce);
    EXPECT_EQ(state.recent[0].bytes, 400U);
    EXPECT_LE(state.recent[0].entered, *state.recent[0].done);
    nanoseconds under_way{0};
    for (const auto& record : state.recent) under_way += *record.done - record.entered;
    EXPECT_EQ(rank.collective_seconds(), to_seconds(under_way));
  });
}

}  // namespace
}  // namespace dlaunch::comm
