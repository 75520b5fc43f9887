// Who keeps what of a model that the ranks share.
#include "trainer/parallel/sharding.h"

#include <gtest/gtest.h>

#include <vector>

#include "trainer/checkpoint/layout.h"

namespace dlaunch::trainer {
namespace {

constexpr ModelSettings kModel{2, 12, 3, 5};

TEST(Sharding, EveryRowIsKeptByTheRankThatWritesItAndByNoOther) {
  const auto whole = layout_of(kModel);
  for (const std::uint32_t ranks : {1u, 2u, 3u, 5u, 16u}) {
    std::vector<std::uint64_t> rows(whole.parameters.size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const auto shard = shard_of(whole, ranks, Rank{rank});
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
    const auto partition = partition_of(whole, unit, 3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      std::size_t kept = 0;
      for (const auto& range : partition.of(Rank{rank})) {
        for (std::size_t i = 0; i < range.count; ++i) ++owners.at(range.first + i);
        kept += range.count;
      }
      const auto index = static_cast<std::size_t>(&unit - whole.units.data());
      EXPECT_EQ(kept, shard_of(whole, 3, Rank{rank}).units[index].count);
    }
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      const auto& parameter = whole.parameters[unit.first_parameter + i];
      for (std::size_t k = 0; k < parameter.count; ++k) {
        EXPECT_EQ(owners[parameter.first - unit.first + k], 1) << parameter.name;
      }
    }
  }
}

TEST(Sharding, ARanksFirstValuesAreThoseOfTheWholeModel) {
  const auto whole = layout_of(kModel);
  std::vector<float> all(whole.count);
  fill_first_values(whole, 4, all);
  const auto shard = shard_of(whole, 3, Rank{1});
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
