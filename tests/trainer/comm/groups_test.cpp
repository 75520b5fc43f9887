// Parts of a mesh: their trees, their failures, and what passes between two ranks only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/trainer/comm/mesh_fixture.h"
#include "tests/trainer/comm/reference_tree.h"
#include "trainer/comm/lanes.h"

namespace dlaunch::comm {
namespace {

using testing::HasSubstr;

class Groups : public testing::TestWithParam<LinkKind> {};

std::string name_of_links(const testing::TestParamInfo<LinkKind>& info) {
  return name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Groups, testing::ValuesIn(kLinkKinds), name_of_links);

/// Ranks [k * size, (k + 1) * size) together; and those at the same place of each such block.
std::unique_ptr<Communicator> shard_group(Communicator& mesh, std::uint32_t size) {
  return mesh.split("shard", [size](Rank rank) { return rank.value / size; });
}
std::unique_ptr<Communicator> replica_group(Communicator& mesh, std::uint32_t size) {
  return mesh.split("replica", [size](Rank rank) { return rank.value % size; });
}

Values node_of(const Communicator& mesh, const std::vector<Values>& leaves) {
  const auto batches = static_cast<std::uint32_t>(leaves.size());
  const TreeNode node = micro_batches_of_rank(batches, mesh.world_size(), mesh.rank());
  return reference_sum(leaves, node.first, node.count);
}

TEST_P(Groups, HaveTheirOwnRanksInTheOrderOfTheMesh) {
  TestMesh mesh(6, GetParam());
  mesh.run([](Communicator& rank) {
    const auto odd = rank.split("odd", [](Rank r) { return r.value % 2; });
    EXPECT_EQ(odd->world_size(), 3U);
    EXPECT_EQ(odd->rank(), Rank{rank.rank().value / 2});
    std::vector<std::byte> bytes(8, static_cast<std::byte>(rank.rank().value));
    ASSERT_TRUE(odd->broadcast(Rank{2}, bytes));
    EXPECT_EQ(bytes.front(), static_cast<std::byte>(4 + rank.rank().value % 2));
    const auto pair = odd->split("pair", [](Rank r) { return r.value / 2; });
    EXPECT_EQ(pair->world_size(), odd->rank().value < 2 ? 2U : 1U) << "a part of a part";
    Values values{1.0F};
    ASSERT_TRUE(pair->all_reduce(values));
    EXPECT_EQ(values[0], static_cast<float>(pair->world_size()));
    ASSERT_TRUE(rank.barrier());
  });
}

TEST_P(Groups, OfShardsAndReplicasSumTheTreeOfTheWholeMesh) {
  constexpr std::uint32_t kBatches = 32;
  constexpr std::size_t kValues = 999;
  const auto leaves = uneven_leaves(kBatches, kValues);
  const Values expected = reference_sum(leaves, 0, kBatches);
  for (std::uint32_t ranks = 1; ranks <= 12; ++ranks) {
    for (std::uint32_t size = 1; size <= ranks; ++size) {
      if (!shard_size_fits(ranks, size)) continue;
      TestMesh mesh(ranks, GetParam());
      const Partition partition = Partition::even(kValues, size);
      mesh.run([&](Communicator& rank) {
        const auto shard = shard_group(rank, size);
        const auto replica = replica_group(rank, size);
        Values buffer = node_of(rank, leaves);
        ASSERT_TRUE(shard->reduce_scatter(buffer, partition));
        const auto& own = partition.of(shard->rank()).front();
        ASSERT_TRUE(replica->all_reduce(std::span(buffer).subspan(own.first, own.count)));
        ASSERT_TRUE(shard->all_gather(buffer, partition));
        EXPECT_EQ(buffer, expected) << ranks << " ranks, shards of " << size;
        ASSERT_TRUE(rank.barrier());
      });
    }
  }
}

TEST(ShardSize, FitsIfTheTreeOfBlocksIsTheTreeOfRanks) {
  EXPECT_TRUE(shard_size_fits(8, 2));
  EXPECT_TRUE(shard_size_fits(6, 2)) << "two blocks of doubled ranks, one of single ones";
  EXPECT_TRUE(shard_size_fits(12, 4));
  EXPECT_TRUE(shard_size_fits(6, 6)) << "one block is the mesh itself";
  EXPECT_FALSE(shard_size_fits(6, 3));
  EXPECT_FALSE(shard_size_fits(6, 4));
  EXPECT_FALSE(shard_size_fits(6, 0));
}

TEST_P(Groups, RunStartedOperationsInTheOrderOfTheCalls) {
  TestMesh mesh(4, GetParam());
  mesh.run([](Communicator& rank) {
    const auto shard = shard_group(rank, 2);
    const auto replica = replica_group(rank, 2);
    std::vector<Values> buffers(20, Values(1000, 1.0F));
    std::vector<Ticket> tickets;
    for (Values& buffer : buffers) {
      // Each result goes into the next: only right if nothing overtakes.
      ASSERT_TRUE(shard->start_all_reduce(buffer));
      const auto ticket = replica->start_all_reduce(buffer);
      ASSERT_TRUE(ticket);
      tickets.push_back(*ticket);
    }
    ASSERT_TRUE(rank.wait(tickets.back())) << "any communicator of the mesh waits";
    for (const Values& buffer : buffers) EXPECT_EQ(buffer, Values(1000, 4.0F));
    const CollectiveState state = rank.collective_state();
    EXPECT_EQ(state.sequence, 40U) << "over all groups";
    EXPECT_EQ(state.group, "replica");
    EXPECT_EQ(state.recent.back().sequence, 20U) << "within the group";
    EXPECT_EQ(state.recent.back().group, "replica");
    ASSERT_TRUE(rank.barrier());
  });
}

TEST_P(Groups, AllDieWithOneRankAndNameIt) {
  TestMesh mesh(4, GetParam());
  std::atomic<int> met_before{0};
  mesh.run([&](Communicator& rank) {
    const auto shard = shard_group(rank, 2);
    const auto replica = replica_group(rank, 2);
    ASSERT_TRUE(rank.barrier());
    ++met_before;
    while (met_before < 4) std::this_thread::yield();
    if (rank.rank() == Rank{3}) return;  // only 1 and 2 are in groups with it
    if (rank.rank() == Rank{2}) {
      const auto met = shard->barrier();
      ASSERT_FALSE(met);
      EXPECT_EQ(met.error().suspect, Rank{3}) << "a rank of the mesh";
      EXPECT_THAT(met.error().error.doing, HasSubstr("during barrier 1 of group shard"));
    } else {
      EXPECT_FALSE(rank.barrier());
    }
    EXPECT_FALSE(replica->barrier());
    EXPECT_FALSE(shard->barrier());
    EXPECT_FALSE(rank.barrier());
    EXPECT_EQ(replica->failure()->suspect, Rank{3});
  });
}

TEST_P(Groups, FailOnceTheCommunicatorOfAllIsGone) {
  TestMesh mesh(2, GetParam());
  std::vector<std::unique_ptr<Communicator>> parts(2);
  mesh.run([&](Communicator& rank) {
    parts[rank.rank().value] = rank.split("all of it", [](Rank) { return 0U; });
    ASSERT_TRUE(parts[rank.rank().value]->barrier());
  });
  EXPECT_FALSE(parts[0]->barrier());
  EXPECT_FALSE(parts[1]->barrier());
}

TEST_P(Groups, AreNotTakenForEachOther) {
  TestMesh mesh(2, GetParam());
  mesh.run([](Communicator& rank) {
    const auto first = rank.split("first", [](Rank) { return 0U; });
    const auto second = rank.split("second", [](Rank) { return 0U; });
    const auto met = rank.rank() == Rank{0} ? first->barrier() : second->barrier();
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().kind, FailureKind::mismatch) << met.error().error.text();
  });
}

TEST_P(Groups, SendEachToEachWhatIsForIt) {
  constexpr std::uint32_t kRanks = 5;
  const auto size_of = [](std::uint32_t from, std::uint32_t to) { return 1000 * from + 7 * to; };
  TestMesh mesh(kRanks, GetParam());
  mesh.run([&](Communicator& rank) {
    const std::uint32_t self = rank.rank().value;
    std::vector<std::vector<std::byte>> out(kRanks), in(kRanks);
    std::vector<std::span<const std::byte>> send;
    std::vector<std::span<std::byte>> receive;
    for (std::uint32_t other = 0; other < kRanks; ++other) {
      out[other].assign(size_of(self, other), static_cast<std::byte>(16 * self + other));
      in[other].resize(size_of(other, self));
      send.emplace_back(out[other]);
      receive.emplace_back(in[other]);
    }
    const auto done = rank.all_to_all(send, receive);
    ASSERT_TRUE(done) << done.error().error.text();
    for (std::uint32_t other = 0; other < kRanks; ++other) {
      EXPECT_EQ(in[other], std::vector<std::byte>(size_of(other, self),
                                                  static_cast<std::byte>(16 * other + self)));
    }
  });
}

TEST_P(Groups, PassMessagesBetweenTwoRanksBesideTheCollectives) {
  constexpr std::size_t kBytes = 3'000'001;  // more than any ring or socket keeps
  TestMesh mesh(3, GetParam());
  mesh.run([&](Communicator& rank) {
    std::vector<std::byte> bytes(kBytes, static_cast<std::byte>(rank.rank().value));
    ASSERT_TRUE(rank.barrier());
    // Around the ring, past rank 1, which does more collectives' worth of nothing.
    if (rank.rank() == Rank{0}) {
      ASSERT_TRUE(rank.send(Rank{2}, bytes));
      ASSERT_TRUE(rank.send(Rank{2}, std::span(bytes).first(1)));
    } else if (rank.rank() == Rank{2}) {
      ASSERT_TRUE(rank.receive(Rank{0}, bytes));
      EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }));
      ASSERT_TRUE(rank.receive(Rank{0}, std::span(bytes).first(1)));
    }
    ASSERT_TRUE(rank.barrier());
    Values odd(5, 1.0F);  // after an odd number of bytes
    ASSERT_TRUE(rank.all_reduce(odd));
    EXPECT_EQ(odd, Values(5, 3.0F));
    EXPECT_EQ(rank.collective_state().sequence, 3U) << "messages are no collectives";
  });
}

TEST_P(Groups, AddAtAnyAddressOfTheStream) {
  TestMesh mesh(2, GetParam());
  mesh.run([&](Communicator& rank) {
    for (std::size_t odd = 1; odd < 8; ++odd) {
      std::vector<std::byte> bytes(odd);
      ASSERT_TRUE(rank.broadcast(Rank{0}, bytes));
      Values values(1'000'003);  // across the end of the ring several times
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009);
      ASSERT_TRUE(rank.all_reduce(values));
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], static_cast<float>(2 * (i % 1009))) << i;
      }
    }
  });
}

// ---- comparing the calls

MeshSettings comparing(const TestMesh& mesh, std::uint32_t rank) {
  MeshSettings settings = mesh.settings(rank);
  settings.check_collectives = true;
  return settings;
}

TEST_P(Groups, CompareTheirCallsAndDoTheSameThen) {
  TestMesh mesh(4, GetParam());
  mesh.run([&](std::uint32_t rank) { return comparing(mesh, rank); },
           [](Communicator& rank) {
             const auto shard = shard_group(rank, 2);
             Values values(100, 1.0F);
             ASSERT_TRUE(shard->all_reduce(values));
             ASSERT_TRUE(rank.all_reduce(values));
             EXPECT_EQ(values, Values(100, 8.0F));
             ASSERT_TRUE(rank.barrier());
           });
}

TEST_P(Groups, NameTheRankWhoseCallIsAnotherAndBothCalls) {
  TestMesh mesh(4, GetParam());
  std::vector<std::string> sentences(4);
  mesh.run([&](std::uint32_t rank) { return comparing(mesh, rank); },
           [&](Communicator& rank) {
             ASSERT_TRUE(rank.barrier());
             Values values(100, 1.0F);
             const auto done = rank.rank() == Rank{1} ? rank.barrier() : rank.all_reduce(values);
             ASSERT_FALSE(done);
             EXPECT_EQ(done.error().kind, FailureKind::mismatch);
             EXPECT_EQ(done.error().suspect, Rank{1}) << "the others agree";
             sentences[rank.rank().value] = done.error().error.doing;
           });
  // Others may have heard it from the first that saw it.
  EXPECT_THAT(sentences,
              testing::Contains(testing::AllOf(HasSubstr("do not call the same collective"),
                                               HasSubstr("barrier"), HasSubstr("all-reduce"))));
}

TEST(Comparison, ReadsTheSameOnEveryRankThatComesSoFar) {
  TestMesh mesh(2);
  std::vector<std::string> sentences(2);
  mesh.run([&](std::uint32_t rank) { return comparing(mesh, rank); },
           [&](Communicator& rank) {
             Values values(100, 1.0F);
             const auto parts = Partition::even(100, 2);
             const auto done = rank.rank() == Rank{1} ? rank.reduce_scatter(values, parts)
                                                      : rank.all_gather(values, parts);
             ASSERT_FALSE(done);
             sentences[rank.rank().value] = done.error().error.doing;
           });
  EXPECT_TRUE(std::ranges::any_of(
      sentences,
      [](const std::string& sentence) {
        return sentence.ends_with(
            "in reduce-scatter 1 of 400 bytes, the others in all-gather 1 of 400 bytes");
      }))
      << sentences[0] << "\n"
      << sentences[1];
}

TEST_P(Groups, FindOtherPartsOfTheSameCall) {
  TestMesh mesh(3, GetParam());
  mesh.run([&](std::uint32_t rank) { return comparing(mesh, rank); },
           [](Communicator& rank) {
             Values values(99, 1.0F);
             const auto even = Partition::even(99, 3);
             const Partition other({{{0, 34}}, {{34, 33}}, {{67, 32}}});
             const auto done = rank.all_gather(values, rank.rank() == Rank{2} ? other : even);
             ASSERT_FALSE(done);
             EXPECT_EQ(done.error().suspect, Rank{2});
           });
}

}  // namespace
}  // namespace dlaunch::comm
