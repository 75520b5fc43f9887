#include "supervisor/job/checkpoints.h"

#include <gtest/gtest.h>

#include "supervisor/job/checkpoint_interval.h"

namespace dlaunch::supervisor::job {
namespace {

protocol::Written part(std::uint64_t step, std::uint32_t rank, double seconds = 1) {
  protocol::Written written;
  written.set_step(step);
  written.set_rank(rank);
  written.set_file("shard-" + std::to_string(rank));
  written.set_seconds(seconds);
  return written;
}

TEST(Checkpoints, AreCommittedOnceEveryRankHasWritten) {
  Checkpoints checkpoints(3);
  checkpoints.begin_generation(2);
  EXPECT_FALSE(checkpoints.written(part(20, 1, 4)));
  EXPECT_FALSE(checkpoints.written(part(20, 1, 4))) << "repeated";
  const auto commit = checkpoints.written(part(20, 0));
  ASSERT_TRUE(commit);
  EXPECT_EQ(commit->files_size(), 2);
  EXPECT_EQ(commit->files(0).name(), "shard-0") << "by rank";
  EXPECT_EQ(checkpoints.save_cost(), 4s) << "the slowest rank's";
  EXPECT_FALSE(checkpoints.newest()) << "not before it is renamed";
  checkpoints.committed(Step{20});
  EXPECT_EQ(checkpoints.newest(), Step{20});
}

TEST(Checkpoints, DamagedOnesDoNotCountUntilTheyAreWrittenAgain) {
  Checkpoints checkpoints(3);
  checkpoints.found({Step{20}, Step{40}});
  EXPECT_TRUE(checkpoints.damaged(Step{40}));
  EXPECT_FALSE(checkpoints.damaged(Step{40})) << "known";
  EXPECT_EQ(checkpoints.newest(), Step{20});
  checkpoints.found({Step{20}, Step{40}});
  EXPECT_EQ(checkpoints.newest(), Step{20}) << "it still lies there";
  checkpoints.begin_generation(1);
  EXPECT_TRUE(checkpoints.written(part(40, 0))->replaces_damaged());
  checkpoints.committed(Step{40});
  EXPECT_EQ(checkpoints.newest(), Step{40});
  EXPECT_FALSE(checkpoints.written(part(60, 0))->replaces_damaged());
}

TEST(Checkpoints, KeepTheNewestOnes) {
  Checkpoints checkpoints(2);
  checkpoints.found({Step{10}, Step{20}, Step{30}});
  checkpoints.begin_generation(1);
  const auto commit = checkpoints.written(part(40, 0));
  ASSERT_TRUE(commit);
  ASSERT_EQ(commit->delete_steps_size(), 2);
  EXPECT_EQ(commit->delete_steps(0), 10U);
  EXPECT_EQ(commit->delete_steps(1), 20U);
}

TEST(Checkpoints, NeverDeleteTheOneJustWritten) {
  Checkpoints checkpoints(0);
  checkpoints.found({Step{50}});
  checkpoints.begin_generation(1);
  const auto older = checkpoints.written(part(40, 0));
  ASSERT_TRUE(older);
  EXPECT_EQ(older->delete_steps_size(), 0);
  checkpoints.committed(Step{40});
  EXPECT_EQ(checkpoints.newest(), Step{50});
}

TEST(Checkpoints, ForgetPartsOfAnOlderGeneration) {
  Checkpoints checkpoints(3);
  checkpoints.begin_generation(2);
  EXPECT_FALSE(checkpoints.written(part(20, 0)));
  checkpoints.begin_generation(2);
  EXPECT_FALSE(checkpoints.written(part(20, 1)));
  EXPECT_TRUE(checkpoints.written(part(20, 0)));
}

TEST(Checkpoints, AReportThatIsRepeatedLongAfterItsCommitStartsNoOther) {
  Checkpoints checkpoints(1);
  checkpoints.begin_generation(2);
  for (const std::uint64_t step : {20U, 40U}) {
    EXPECT_FALSE(checkpoints.written(part(step, 0)));
    EXPECT_TRUE(checkpoints.written(part(step, 1)));
    checkpoints.committed(Step{step});
  }
  for (const std::uint32_t rank : {0U, 1U}) {
    EXPECT_FALSE(checkpoints.written(part(20, rank))) << "it is deleted already";
    EXPECT_FALSE(checkpoints.written(part(40, rank)));
  }
}

TEST(Checkpoints, AFailedOneMayBeWrittenAgain) {
  Checkpoints checkpoints(3);
  checkpoints.begin_generation(1);
  EXPECT_TRUE(checkpoints.written(part(20, 0)));
  EXPECT_FALSE(checkpoints.written(part(20, 0))) << "on its way";
  checkpoints.failed(Step{20});
  EXPECT_TRUE(checkpoints.written(part(20, 0)));
}

TEST(JudgeMatch, NamesEveryDifferenceThatChangesResults) {
  const auto differences = judge_match(
      R"({"model":{"layers":4,"width":128},"seed":1,"micro_batch":8,"steps":200,"threads":2})",
      R"({"model":{"layers":6,"width":128},"seed":2,"micro_batch":8,"steps":100,"threads":1})");
  EXPECT_EQ(differences, (std::vector<std::string>{"model.layers is 4 here, 6 in the checkpoint",
                                                   "seed is 1 here, 2 in the checkpoint"}));
}

TEST(JudgeMatch, TakesEqualNumbersForEqualHoweverTheyAreWritten) {
  EXPECT_TRUE(judge_match(R"({"learning_rate":3e-4})", R"({"learning_rate":0.0003})").empty());
  EXPECT_TRUE(judge_match(R"({"seed":1})", "{}").empty());
  EXPECT_TRUE(judge_match("", "no JSON").empty());
}

TEST(JudgeMatch, KeysThatAnOlderCheckpointDoesNotHaveMeanWhatTheyDidThen) {
  EXPECT_TRUE(
      judge_match(R"({"model":{"vocabulary":256},"data":{"validation":0.0}})", "{}").empty());
  EXPECT_EQ(judge_match(R"({"data":{"validation":0.1},"schedule":"cosine"})", R"({"data":{}})"),
            (std::vector<std::string>{"data.validation is 0.1 here, 0.0 in the checkpoint",
                                      "schedule is \"cosine\" here, \"constant\" in the "
                                      "checkpoint"}));
}

TEST(JudgeInterval, FollowsYoungBetweenItsLimits) {
  // 8 devices, prior 1,000 device-days: 125 days between failures; sqrt(2 x 0.1 s x 10.8e6 s).
  const auto interval = judge_interval({100ms, 8, 0ns, 0});
  EXPECT_NEAR(to_seconds(interval), 1469.7, 0.1);
  EXPECT_EQ(judge_interval({60s, 1, 0ns, 0}), 30min) << "a rare failure, an expensive save";
  EXPECT_EQ(judge_interval({1ms, 4096, 0ns, 5000}), 30s);
}

TEST(JudgeInterval, ShortensWithTheJobsOwnFailures) {
  EXPECT_LT(judge_interval({1s, 64, 1h, 20}), judge_interval({1s, 64, 1h, 0}));
}

}  // namespace
}  // namespace dlaunch::supervisor::job
