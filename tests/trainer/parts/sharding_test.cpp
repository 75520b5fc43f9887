// Who keeps what of a model that the ranks share.
#include "trainer/parallel/sharding.h"

#include <gtest/gtest.h>

#include <vector>

#include "trainer/checkpoint/layout.h"
#include "trainer/model/definition.h"

namespace dlaunch::trainer {
namespace {

constexpr ModelSettings kModel{2, 12, 3, 5};

TEST(Sharding, EveryRowIsKeptByTheRankThatWritesItAndByNoOther) {
  const auto whole = layout_of(kModel);
  for (const std::uint32_t ranks : {1u, 2u, 3u, 5u, 16u}) {
    std::vector<std::uint64_t> rows(whole.parameters.size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto shard = shard_of(whole, {ranks, ranks}, Rank{rank});
      std::size_t end = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto& part = shard.parameters[i];
        const auto written = checkpoint::rows_of_rank(whole.parameters[i].rows, ranks, Rank{rank});
        EXPECT_EQ(part.first_row, written.first);
        EXPECT_EQ(part.rows, written.count);
        EXPECT_EQ(part.first, end) << "packed";
        EXPECT_EQ(part.count, part.rows * whole.parameters[i].row_values());
        end += part.count;
        rows[i] += part.rows;
      }
      EXPECT_EQ(shard.count, end);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], whole.parameters[i].rows);
  }
}

TEST(Sharding, APartitionHoldsEachRanksRowsAtTheirPlacesInTheUnit) {
  const auto whole = layout_of(kModel);
  for (const auto& unit : whole.units) {
    std::vector<int> owners(unit.count);
    const auto partition = partition_of(whole, unit, {3, 3});
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      std::size_t kept = 0;
      for (const auto& range : partition.of(Rank{rank})) {
        for (std::size_t i = 0; i < range.count; ++i) ++owners.at(range.first + i);
        kept += range.count;
      }
      const auto index = static_cast<std::size_t>(&unit - whole.units.data());
      EXPECT_EQ(kept, shard_of(whole, {3, 3}, Rank{rank}).units[index].count);
    }
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      const auto& parameter = whole.parameters[unit.first_parameter + i];
      for (std::size_t k = 0; k < parameter.count; ++k) {
        EXPECT_EQ(owners[parameter.first - unit.first + k], 1) << parameter.name;
      }
    }
  }
}

TEST(Sharding, EachRankWritesOneOfThePartsThatItsShardConsistsOf) {
  const auto whole = layout_of(kModel);
  for (const Sharing sharing : {Sharing{6, 2}, Sharing{8, 4}, Sharing{3, 1}, Sharing{5, 5}}) {
    std::vector<int> writers(sharing.world_size);
    for (std::uint32_t rank = 0; rank < sharing.world_size; ++rank) {
      const auto part = sharing.part_of(Rank{rank});
      ++writers.at(part.value);
      const auto shard = shard_of(whole, sharing, Rank{rank});
      EXPECT_EQ(shard.count, shard_of(whole, sharing, Rank{rank % sharing.shard_size}).count)
          << "all copies are divided alike";
      for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
        const auto& kept = shard.parameters[i];
        const auto written =
            checkpoint::rows_of_rank(whole.parameters[i].rows, sharing.world_size, part);
        EXPECT_GE(written.first, kept.first_row);
        EXPECT_LE(written.first + written.count, kept.first_row + kept.rows);
      }
    }
    for (const auto count : writers) EXPECT_EQ(count, 1) << "no part is written twice";
    EXPECT_EQ(sharing.part_of(Rank{0}), Rank{0}) << "who writes the manifest";
  }
}

TEST(Sharding, CopiesThatWouldChangeTheOrderOfASumAreRefused) {
  EXPECT_TRUE(make_sharing(6, 2));
  EXPECT_TRUE(make_sharing(3, 3));
  EXPECT_NE(make_sharing(6, 3).error().text().find("power of two"), std::string::npos);
  EXPECT_NE(make_sharing(6, 4).error().text().find("no whole number"), std::string::npos);
}

TEST(Sharding, ARanksFirstValuesAreThoseOfTheWholeModel) {
  const auto whole = layout_of(kModel);
  std::vector<float> all(whole.count);
  fill_first_values(whole, 4, all);
  const auto shard = shard_of(whole, {3, 3}, Rank{1});
  std::vector<float> mine(shard.count);
  fill_first_values(shard, 4, mine);
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    const auto& part = shard.parameters[i];
    const auto& parameter = whole.parameters[i];
    for (std::size_t k = 0; k < part.count; ++k) {
      ASSERT_EQ(mine[part.first + k],
                all[parameter.first + part.first_row * parameter.row_values() + k])
          << parameter.name;
    }
  }
}

}  // namespace
}  // namespace dlaunch::trainer
