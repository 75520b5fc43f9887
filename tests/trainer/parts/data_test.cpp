// Which bytes are trained on when: a function of seed, step and micro-batch alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "trainer/data/batch.h"
#include "trainer/data/order.h"

namespace dlaunch::trainer {
namespace {

TEST(DataOrder, EachWindowComesOnceInEachPassOverTheText) {
  for (const std::uint64_t bytes : {5u, 9u, 17u, 100u, 4097u}) {
    const DataOrder order(1, bytes, /*context=*/4, /*logical_batches=*/2, /*micro_batch=*/3);
    const auto windows = order.windows();
    std::vector<std::set<std::uint64_t>> passes(3);
    for (std::uint64_t dealt = 0; dealt < 3 * windows; ++dealt) {
      const auto first = order.first_byte(dealt / 6, static_cast<std::uint32_t>(dealt / 3 % 2),
                                          static_cast<std::uint32_t>(dealt % 3));
      EXPECT_EQ(first % 4, 0u);
      EXPECT_LE(first + 4 + 1, bytes) << "the last target is inside the text";
      passes[dealt / windows].insert(first);
    }
    for (const auto& pass : passes) EXPECT_EQ(pass.size(), windows) << bytes << " bytes";
  }
}

TEST(DataOrder, AnotherSeedAndAnotherPassAreOtherOrders) {
  const auto sequence = [](std::uint64_t seed, std::uint64_t pass) {
    const DataOrder order(seed, 1001, 10, 1, 1);
    std::vector<std::uint64_t> firsts;
    for (std::uint64_t i = 0; i < 100; ++i)
      firsts.push_back(order.first_byte(pass * 100 + i, 0, 0));
    return firsts;
  };
  EXPECT_EQ(sequence(1, 0), sequence(1, 0));
  EXPECT_NE(sequence(1, 0), sequence(2, 0));
  EXPECT_NE(sequence(1, 0), sequence(1, 1));
  EXPECT_FALSE(std::ranges::is_sorted(sequence(1, 0)));
}

TEST(DataOrder, TheOrderOfARunIsFixedForever) {
  // A change here would make every older checkpoint go on with other data.
  const DataOrder order(7, 20'000, 16, 8, 2);
  std::vector<std::uint64_t> firsts;
  for (std::uint32_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    firsts.push_back(order.first_byte(5, micro_batch, 1));
  }
  EXPECT_THAT(firsts, testing::ElementsAre(1600, 6112, 16432));
}

TEST(BatchBuffer, TargetsAreTheBytesAfterTheInputs) {
  TrainerSettings settings;
  settings.micro_batch = 3;
  settings.model.context = 5;
  const std::string text = "abcdefghijklmnopqrstuvwxyz\xff";
  const DataOrder order(1, text.size(), 5, 1, 3);
  BatchBuffer batch(settings);
  batch.fill(std::as_bytes(std::span(text)), order, 4, 0);
  const auto view = batch.view();
  ASSERT_EQ(view.inputs.size(), 15u);
  for (std::uint32_t sequence = 0; sequence < 3; ++sequence) {
    const auto first = order.first_byte(4, 0, sequence);
    for (std::size_t i = 0; i < 5; ++i) {
      const auto byte = [&](std::size_t at) {
        return static_cast<unsigned char>(text[first + at]);
      };
      EXPECT_EQ(view.inputs[sequence * 5 + i], byte(i));
      EXPECT_EQ(view.targets[sequence * 5 + i], byte(i + 1));
    }
  }
}

}  // namespace
}  // namespace dlaunch::trainer
