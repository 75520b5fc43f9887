#include "trainer/checkpoint/layout.h"

#include <gtest/gtest.h>

namespace dlaunch::checkpoint {
namespace {

TEST(Layout, CoversAllRowsOnceAndEvenly) {
  for (std::uint32_t ranks = 1; ranks <= 24; ++ranks) {
    for (const std::uint64_t rows : {0ULL, 1ULL, 2ULL, 23ULL, 24ULL, 25ULL, 1ULL << 62}) {
      std::uint64_t next = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const RowRange range = rows_of_rank(rows, ranks, Rank{rank});
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.count, rows / ranks + 1);
        EXPECT_GE(range.count, rows / ranks);
        next += range.count;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(ShardName, IsReadBackAndNothingElseIs) {
  EXPECT_EQ(shard_name(4, Rank{2}), "shard-2-of-4.safetensors");
  EXPECT_TRUE(is_shard_name("shard-0-of-1.safetensors"));
  EXPECT_TRUE(is_shard_name("shard-10-of-24.safetensors"));
  for (const char* name :
       {"", "shard-", "shard-4-of-4.safetensors", "shard--1-of-4.safetensors",
        "shard-1-of-0.safetensors", "shard-01-of-4.safetensors", "shard-1-of-4.safetensors ",
        "../shard-1-of-4.safetensors", "shard-1-of-4.safetensors/x", "manifest.json",
        "shard-+1-of-4.safetensors", "shard-1-of-99999999999999999999.safetensors"}) {
    EXPECT_FALSE(is_shard_name(name)) << name;
  }
}

TEST(StepDirectory, IsNamedByStepAndWhilePartialByGeneration) {
  EXPECT_EQ(step_directory_name(Step{800}), "step-800");
  EXPECT_EQ(partial_directory_name(Step{800}, Generation{3}), "step-800.g3.partial");
  EXPECT_EQ(step_of_directory("step-800"), Step{800});
  EXPECT_EQ(step_of_directory("step-0"), Step{0});
  for (const char* name : {"step-800.g3.partial", "step-", "step-08", "step--1", "steps-8", ""}) {
    EXPECT_FALSE(step_of_directory(name)) << name;
  }
}

}  // namespace
}  // namespace dlaunch::checkpoint
