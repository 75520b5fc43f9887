#include "rendezvous/partition.h"

#include <gtest/gtest.h>

namespace dlaunch::rendezvous {
namespace {

Instant at(milliseconds since) { return Instant{} + 1h + since; }

TEST(PartitionRule, UpToHalfOfTheHostsMayBeConvicted) {
  PartitionRule rule(30s, 5s);
  EXPECT_TRUE(rule.judge(at(0ms), 4, 2, false).convict);
  EXPECT_TRUE(rule.judge(at(0ms), 2, 2, false).convict) << "of two hosts one cannot tell";
  EXPECT_EQ(rule.until(), std::nullopt);
}

TEST(PartitionRule, MoreThanHalfAtOnceIsSaidOnceAndConvictsNobodyForTheGrace) {
  PartitionRule rule(30s, 5s);
  const auto first = rule.judge(at(0ms), 3, 2, false);
  EXPECT_FALSE(first.convict);
  EXPECT_NE(first.sentence.find("2 of 3 hosts fell silent"), std::string::npos);
  EXPECT_EQ(rule.until(), at(30s));
  const auto again = rule.judge(at(29s), 3, 3, false);
  EXPECT_FALSE(again.convict);
  EXPECT_EQ(again.sentence, "");
  EXPECT_TRUE(rule.judge(at(30s), 3, 3, false).convict) << "but not for ever";
  EXPECT_EQ(rule.until(), std::nullopt);
}

TEST(PartitionRule, AHostThatConfirmsTheSilenceClearsTheControllerOfIt) {
  PartitionRule rule(30s, 5s);
  EXPECT_TRUE(rule.judge(at(0ms), 5, 4, true).convict);
}

TEST(PartitionRule, AfterwardsTheOthersHaveTimeToComeBack) {
  PartitionRule rule(30s, 5s);
  (void)rule.judge(at(0ms), 4, 4, false);
  const auto back = rule.judge(at(10s), 4, 2, false);
  EXPECT_FALSE(back.convict) << "their connections come back one by one";
  EXPECT_NE(back.sentence.find("reaches hosts again"), std::string::npos);
  EXPECT_FALSE(rule.judge(at(14s), 4, 1, false).convict);
  EXPECT_TRUE(rule.judge(at(15s), 4, 1, false).convict);
}

TEST(PartitionRule, NobodySilentIsTheEndOfIt) {
  PartitionRule rule(30s, 5s);
  (void)rule.judge(at(0ms), 4, 4, false);
  rule.reset();
  EXPECT_EQ(rule.until(), std::nullopt);
  EXPECT_TRUE(rule.judge(at(1s), 4, 1, false).convict);
}

}  // namespace
}  // namespace dlaunch::rendezvous
