#include "trainer/checkpoint/restore_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

const TensorSpec kWide{"w", Dtype::f32, {6, 2}};
const TensorSpec kScalar{"s", Dtype::f64, {}};

Manifest example() {
  const std::vector<TensorSpec> specs{kWide, kScalar};
  return make_manifest(Step{1}, 2, nlohmann::json::object(), {}, specs);
}

TEST(RestorePlan, ReadsEachWantedRowOnceFromTheFileThatHasIt) {
  std::vector<std::byte> room(4 * 8);
  const std::vector<TensorDestination> wanted{{kWide, 1, 4, room}};
  const auto files = plan_restore(example(), wanted);
  ASSERT_TRUE(files) << files.error().text();
  ASSERT_EQ(files->size(), 2U);
  const FilePlan& first = files->at("shard-0-of-2.safetensors");
  EXPECT_EQ(first.reads.at("w").first_byte, 8U);
  EXPECT_EQ(first.reads.at("w").into.data(), room.data());
  EXPECT_EQ(first.reads.at("w").into.size(), 16U);
  EXPECT_FALSE(first.whole);
  EXPECT_EQ(first.parts.size(), 2U) << "also what is not wanted must be there";
  const FilePlan& second = files->at("shard-1-of-2.safetensors");
  EXPECT_EQ(second.reads.at("w").first_byte, 0U);
  EXPECT_EQ(second.reads.at("w").into.data(), room.data() + 16);
  EXPECT_FALSE(second.whole);
}

TEST(RestorePlan, KnowsWhenAFileIsNeededWhole) {
  std::vector<std::byte> wide(48);
  std::vector<std::byte> scalar(8);
  const std::vector<TensorDestination> wanted{{kWide, 0, 6, wide}, {kScalar, 0, 1, scalar}};
  const auto files = plan_restore(example(), wanted);
  ASSERT_TRUE(files);
  for (const auto& [name, plan] : *files) EXPECT_TRUE(plan.whole) << name;
}

TEST(RestorePlan, LeavesFilesAloneThatHaveNothingWanted) {
  std::vector<std::byte> room(8);
  const std::vector<TensorDestination> wanted{{kWide, 5, 1, room}};
  const auto files = plan_restore(example(), wanted);
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 1U);
  EXPECT_EQ(files->begin()->first, "shard-1-of-2.safetensors");
  EXPECT_TRUE(plan_restore(example(), {})->empty());
}

TEST(RestorePlan, SaysWhatTheCheckpointHasInstead) {
  std::vector<std::byte> room(48);
  const auto trouble = [&](TensorDestination wanted) {
    const auto files = plan_restore(example(), std::span(&wanted, 1));
    return files ? std::string() : files.error().doing;
  };
  EXPECT_THAT(trouble({{"v", Dtype::f32, {6, 2}}, 0, 6, room}), HasSubstr("does not have it"));
  EXPECT_THAT(trouble({{"w", Dtype::f32, {6, 3}}, 0, 6, room}),
              HasSubstr("holds F32 [6, 2], the model wants F32 [6, 3]"));
  EXPECT_THAT(trouble({{"w", Dtype::i32, {6, 2}}, 0, 6, room}), HasSubstr("wants I32 [6, 2]"));
  EXPECT_THAT(trouble({kWide, 0, 5, room}), HasSubstr("does not fit the rows"));
  EXPECT_THAT(trouble({kWide, 1, 6, room}), HasSubstr("does not fit the rows"));
  EXPECT_THAT(trouble({kWide, ~0ULL, 6, room}), HasSubstr("does not fit the rows"));
}

TEST(RestorePlan, RefusesATensorWantedTwice) {
  std::vector<std::byte> room(48);
  const std::vector<TensorDestination> wanted{{kWide, 0, 6, room}, {kWide, 0, 6, room}};
  const auto files = plan_restore(example(), wanted);
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().doing, HasSubstr("wanted twice"));
}

}  // namespace
}  // namespace dlaunch::checkpoint
