// Which tokens are trained on when, and which are not: a function of seed, step and micro-batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "trainer/data/batch.h"
#include "trainer/data/order.h"

namespace dlaunch::trainer {
namespace {

TrainerSettings settings_for(std::uint64_t seed, std::uint32_t context,
                             std::uint32_t logical_batches, std::uint32_t micro_batch) {
  TrainerSettings settings;
  settings.seed = seed;
  settings.model.context = context;
  settings.logical_batches = logical_batches;
  settings.micro_batch = micro_batch;
  return settings;
}

TEST(DataOrder, EachWindowComesOnceInEachPassOverTheText) {
  for (const std::uint64_t bytes : {5u, 9u, 17u, 100u, 4097u}) {
    const DataOrder order(settings_for(1, 4, 2, 3), bytes);
    const auto windows = order.windows();
    std::vector<std::set<std::uint64_t>> passes(3);
    for (std::uint64_t dealt = 0; dealt < 3 * windows; ++dealt) {
      const auto first = order.first_token(dealt / 6, static_cast<std::uint32_t>(dealt / 3 % 2),
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
    const DataOrder order(settings_for(seed, 10, 1, 1), 1001);
    std::vector<std::uint64_t> firsts;
    for (std::uint64_t i = 0; i < 100; ++i)
      firsts.push_back(order.first_token(pass * 100 + i, 0, 0));
    return firsts;
  };
  EXPECT_EQ(sequence(1, 0), sequence(1, 0));
  EXPECT_NE(sequence(1, 0), sequence(2, 0));
  EXPECT_NE(sequence(1, 0), sequence(1, 1));
  EXPECT_FALSE(std::ranges::is_sorted(sequence(1, 0)));
}

TEST(DataOrder, TheOrderOfARunIsFixedForever) {
  // A change here would make every older checkpoint go on with other data.
  const DataOrder order(settings_for(7, 16, 8, 2), 20'000);
  std::vector<std::uint64_t> firsts;
  for (std::uint32_t micro_batch = 0; micro_batch < 3; ++micro_batch) {
    firsts.push_back(order.first_token(5, micro_batch, 1));
  }
  EXPECT_THAT(firsts, testing::ElementsAre(1600, 6112, 16432));
}

TEST(DataSplit, EveryWindowIsOfOneKindAndKnowsItsNumber) {
  for (const std::uint64_t windows : {1u, 15u, 16u, 159u, 160u, 161u, 1000u, 16'005u}) {
    for (const std::uint64_t per_mille : {0u, 1u, 100u, 333u, 500u}) {
      const DataSplit split(windows, per_mille);
      std::set<std::uint64_t> all;
      for (std::uint64_t i = 0; i < split.training_windows(); ++i) {
        all.insert(split.training_window(i));
      }
      EXPECT_EQ(all.size(), split.training_windows());
      for (std::uint64_t i = 0; i < split.validation_windows(); ++i) {
        all.insert(split.validation_window(i));
      }
      EXPECT_EQ(all.size(), windows) << windows << " windows, " << per_mille << " per mille";
      EXPECT_EQ(*all.rbegin(), windows - 1);
    }
  }
}

TEST(DataSplit, ValidationLiesInBlocksEvenlyOverAllOfTheData) {
  const DataSplit split(1600, 100);
  EXPECT_EQ(split.validation_windows(), 160u);
  for (std::uint64_t i = 0; i < 160; ++i) {
    EXPECT_EQ(split.validation_window(i), (i / 16 * 10 + 9) * 16 + i % 16);
  }
}

TEST(DataOrder, NoSequenceOfValidationIsEverTrainedOn) {
  auto settings = settings_for(3, 4, 2, 3);
  settings.data.validation_per_mille = 100;
  const DataOrder order(settings, 4 * 1000 + 1);
  std::set<std::uint64_t> trained, validated;
  for (std::uint64_t dealt = 0; dealt < 3 * order.windows(); ++dealt) {
    trained.insert(order.first_token(dealt / 6, static_cast<std::uint32_t>(dealt / 3 % 2),
                                     static_cast<std::uint32_t>(dealt % 3)));
  }
  ASSERT_EQ(order.validation_batches(), 2 * kValidationPerStep) << "bounded by the step";
  for (std::uint32_t batch = 0; batch < order.validation_batches(); ++batch) {
    for (std::uint32_t sequence = 0; sequence < 3; ++sequence) {
      validated.insert(order.first_validation_token(batch, sequence));
    }
  }
  EXPECT_EQ(trained.size(), order.windows());
  EXPECT_EQ(validated.size(), 24u) << "each sequence once";
  EXPECT_GT(*validated.rbegin(), 4 * 900u) << "up to the end of the data";
  for (const auto first : validated) EXPECT_FALSE(trained.contains(first)) << first;
}

TEST(DataOrder, SmallDataAreValidatedOnAsAWhole) {
  auto settings = settings_for(3, 4, 8, 5);
  settings.data.validation_per_mille = 500;
  const DataOrder order(settings, 4 * 64 + 1);
  EXPECT_EQ(order.validation_windows(), 32u);
  EXPECT_EQ(order.validation_batches(), 6u) << "of whole micro-batches";
}

TEST(BatchBuffer, TargetsAreTheBytesAfterTheInputs) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz\xff";
  const DataOrder order(settings_for(1, 5, 1, 3), text.size());
  BatchBuffer batch(settings_for(1, 5, 1, 3));
  batch.fill(TokenView(std::as_bytes(std::span(text)), 1), order, 4, 0);
  const auto view = batch.view();
  ASSERT_EQ(view.inputs.size(), 15u);
  for (std::uint32_t sequence = 0; sequence < 3; ++sequence) {
    const auto first = order.first_token(4, 0, sequence);
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
