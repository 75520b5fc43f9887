#include "trainer/checkpoint/shard_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "trainer/checkpoint/safetensors.h"

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

const std::vector<float> kValues{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

TensorView whole(const std::string& name = "w") {
  return {{name, Dtype::f32, {5, 2}}, 0, 5, std::as_bytes(std::span(kValues))};
}

TEST(ShardImage, HoldsTheRowsOfItsRank) {
  const TensorView view = whole();
  const auto plan = plan_shard(std::span(&view, 1), 2, Rank{1});
  ASSERT_TRUE(plan) << plan.error().text();
  std::vector<std::byte> image(plan->bytes);
  copy_shard(*plan, image);
  const auto data = std::span(image).last(16);
  std::vector<float> rows(4);
  std::memcpy(rows.data(), data.data(), 16);
  EXPECT_EQ(rows, (std::vector<float>{6, 7, 8, 9}));
  const auto head = std::string(reinterpret_cast<const char*>(image.data()), image.size() - 16);
  const auto tensors = parse_header(std::string_view(head).substr(kLengthBytes), 16);
  ASSERT_TRUE(tensors) << tensors.error().text();
  EXPECT_EQ(tensors->front().spec, (TensorSpec{"w", Dtype::f32, {2, 2}}));
}

TEST(ShardImage, IsTheSameWhateverTheOrderOfTheTensors) {
  const std::vector<TensorView> one{whole("a"), whole("b")};
  const std::vector<TensorView> other{whole("b"), whole("a")};
  const auto first = plan_shard(one, 3, Rank{0});
  const auto second = plan_shard(other, 3, Rank{0});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->head, second->head);
}

TEST(ShardImage, LeavesOutTensorsWithoutRowsForTheRank) {
  const TensorView view{{"s", Dtype::f32, {}}, 0, 1, std::as_bytes(std::span(kValues).first(1))};
  EXPECT_EQ(plan_shard(std::span(&view, 1), 2, Rank{0})->pieces.size(), 1U);
  EXPECT_TRUE(plan_shard(std::span(&view, 1), 2, Rank{1})->pieces.empty());
}

TEST(ShardImage, TakesAViewOfTheRowsThatItNeeds) {
  TensorView view = whole();
  view.first_row = 3;
  view.rows = 2;
  view.data = view.data.last(16);
  EXPECT_TRUE(plan_shard(std::span(&view, 1), 2, Rank{1}));
  const auto other = plan_shard(std::span(&view, 1), 2, Rank{0});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().doing, HasSubstr("does not hold the rows"));
}

TEST(ShardImage, RefusesViewsThatLie) {
  const auto trouble = [](const std::function<void(TensorView&)>& spoil) {
    TensorView view = whole();
    spoil(view);
    const auto plan = plan_shard(std::span(&view, 1), 1, Rank{0});
    return plan ? std::string() : plan.error().doing;
  };
  EXPECT_THAT(trouble([](TensorView& view) { view.spec.name = ""; }), HasSubstr("proper name"));
  EXPECT_THAT(trouble([](TensorView& view) { view.spec.name = "__metadata__"; }),
              HasSubstr("proper name"));
  EXPECT_THAT(trouble([](TensorView& view) { view.spec.name = "\xff"; }), HasSubstr("proper name"));
  EXPECT_THAT(trouble([](TensorView& view) {
                view.spec.shape = {1ULL << 40, 1ULL << 40};
              }),
              HasSubstr("shape cannot be"));
  EXPECT_THAT(trouble([](TensorView& view) { view.rows = 6; }), HasSubstr("fewer rows"));
  EXPECT_THAT(trouble([](TensorView& view) { view.data = view.data.first(36); }),
              HasSubstr("do not fit its rows"));
  const std::vector<TensorView> twice{whole(), whole()};
  const auto plan = plan_shard(twice, 1, Rank{0});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().doing, HasSubstr("appears twice"));
}

}  // namespace
}  // namespace dlaunch::checkpoint
