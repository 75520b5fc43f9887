#include "supervisor/job/hang_finder.h"

#include <gtest/gtest.h>

namespace dlaunch::supervisor::job {
namespace {

constexpr Instant kGo{1h};

class JudgeHang : public ::testing::Test {
 protected:
  void SetUp() override {
    rendezvous::Plan plan;
    plan.members = {
        {HostId{0}, Rank{0}, 1, ""}, {HostId{1}, Rank{1}, 1, ""}, {HostId{2}, Rank{2}, 1, ""}};
    ranks_.begin_generation(plan, kGo);
    ranks_.go(kGo);
    for (std::uint64_t step = 0; step < 3; ++step) {
      for (std::uint32_t rank = 0; rank < 3; ++rank) tell(rank, 100ms, step, 5, false);
    }
  }
  void tell(std::uint32_t rank, nanoseconds at, std::uint64_t step, std::uint64_t sequence,
            bool entered, const char* phase = "reduce", const char* process = "S") {
    protocol::WorkerStatus status;
    status.set_rank(rank);
    status.set_state(protocol::WORKER_RUNNING);
    status.set_step(step);
    status.set_step_seconds(step_seconds_);
    status.set_sequence(sequence);
    status.set_entered(entered);
    status.set_phase(phase);
    status.set_process_state(process);
    ranks_.heard(HostId{rank}, status, kGo + at);
  }
  [[nodiscard]] std::optional<Happening> judge(nanoseconds at) const {
    return judge_hang(ranks_, limits_, kGo + at);
  }
  double step_seconds_ = 0.1;
  HangLimits limits_{60s, 30min, 10min};
  Ranks ranks_;
};

TEST_F(JudgeHang, BlamesNobodyBeforeTheLimit) {
  EXPECT_FALSE(judge(60s));
  EXPECT_TRUE(judge(61s));
  EXPECT_EQ(hang_deadline(ranks_, limits_), kGo + 100ms + 60s);
}

TEST_F(JudgeHang, IsNotLedAstrayByOneStepThatTookForEver) {
  step_seconds_ = 1e300;
  for (std::uint32_t rank = 0; rank < 3; ++rank) tell(rank, 1s, 3, 5, false);
  EXPECT_EQ(hang_deadline(ranks_, limits_), kGo + 1s + 60s) << "the others took 0.1 s";
  for (std::uint64_t step = 4; step < 50; ++step) tell(0, 1s, step, 5, false);
  EXPECT_GT(hang_deadline(ranks_, limits_), kGo + 24h * 365);
}

TEST_F(JudgeHang, BlamesTheRankThatEnteredFewestCollectives) {
  tell(0, 1s, 2, 7, true);
  tell(1, 1s, 2, 6, true);
  tell(2, 1s, 2, 7, true);
  EXPECT_EQ(judge(62s)->rank, Rank{1});
}

TEST_F(JudgeHang, BlamesTheRankWithFewestStepsWhereThereAreNoCollectives) {
  tell(0, 50s, 900, 0, false);
  tell(1, 1s, 20, 0, false);
  tell(2, 50s, 899, 0, false);
  EXPECT_EQ(judge(62s)->rank, Rank{1}) << "though the others go on";
}

TEST_F(JudgeHang, BlamesTheRankOutsideWhileOthersWaitInside) {
  tell(0, 1s, 2, 7, true);
  tell(1, 1s, 2, 7, true);
  tell(2, 1s, 2, 7, false, "forward");
  EXPECT_EQ(judge(62s)->rank, Rank{2});
}

TEST_F(JudgeHang, BlamesAStoppedProcessFirst) {
  tell(0, 1s, 2, 7, true, "reduce", "T");
  tell(1, 1s, 2, 6, false);
  EXPECT_EQ(judge(62s)->rank, Rank{0});
  EXPECT_NE(judge(62s)->what.find("stopped"), std::string::npos);
}

TEST_F(JudgeHang, WaitsForARankThatWritesACheckpoint) {
  tell(0, 1s, 2, 7, true);
  tell(1, 1s, 2, 6, false, "checkpoint");
  tell(2, 1s, 2, 7, true);
  EXPECT_FALSE(judge(10min));
  EXPECT_EQ(judge(31min)->rank, Rank{1});
}

TEST_F(JudgeHang, GivesAStoppedProcessNoTimeForItsCheckpoint) {
  tell(0, 1s, 2, 7, true);
  tell(1, 1s, 2, 6, false, "checkpoint", "T");
  tell(2, 1s, 2, 7, true);
  EXPECT_FALSE(judge(60s));
  EXPECT_EQ(judge(62s)->rank, Rank{1});
}

TEST_F(JudgeHang, GivesSlowStepsThreeTimesTheirTime) {
  step_seconds_ = 40;
  for (std::uint64_t step = 3; step < 18; ++step) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) tell(rank, 1s, step, 5, false);
  }
  EXPECT_FALSE(judge(119s));
  EXPECT_TRUE(judge(122s));
}

TEST_F(JudgeHang, NeverActsWithoutASourceOfSteps) {
  rendezvous::Plan plan;
  plan.members = {{HostId{0}, Rank{0}, 1, ""}};
  ranks_.begin_generation(plan, kGo);
  EXPECT_FALSE(judge(24h));
  EXPECT_FALSE(hang_deadline(ranks_, limits_));
}

TEST(Hang, TheFirstStepHasTheLimitOfAStart) {
  rendezvous::Plan plan;
  plan.members = {{HostId{0}, Rank{0}, 1, ""}};
  Ranks ranks;
  ranks.begin_generation(plan, kGo);
  protocol::WorkerStatus status;
  status.set_state(protocol::WORKER_RUNNING);
  ranks.heard(HostId{0}, status, kGo);
  HangLimits limits{60s, 30min, 10min};
  EXPECT_FALSE(judge_hang(ranks, limits, kGo + 9min));
  EXPECT_TRUE(judge_hang(ranks, limits, kGo + 10min));
  limits.has_steps = false;
  EXPECT_FALSE(judge_hang(ranks, limits, kGo + 10min)) << "it may never report any";
}

TEST(Ranks, TheJobsStepIsTheLastThatAllHaveCompleted) {
  rendezvous::Plan plan;
  plan.members = {{HostId{0}, Rank{0}, 2, ""}};
  Ranks ranks;
  ranks.begin_generation(plan, kGo);
  protocol::WorkerStatus status;
  status.set_step(4);
  ranks.heard(HostId{0}, status, kGo);
  EXPECT_FALSE(ranks.step()) << "rank 1 has said nothing";
  status.set_rank(1);
  status.set_step(3);
  ranks.heard(HostId{0}, status, kGo);
  EXPECT_EQ(ranks.step(), Step{3});
  status.clear_step();
  ranks.heard(HostId{0}, status, kGo);
  EXPECT_EQ(ranks.step(), Step{3}) << "steps never go back";
  status.set_step(1);
  ranks.heard(HostId{0}, status, kGo);
  EXPECT_EQ(ranks.step(), Step{3});
  ranks.ended(Rank{1}, Step{4}, true);
  EXPECT_EQ(ranks.step(), Step{4}) << "an exit is the last word";
  EXPECT_FALSE(ranks.all_finished());
  ranks.heard(HostId{7}, status, kGo);  // not its rank: ignored
  ranks.ended(Rank{0}, {}, true);
  EXPECT_TRUE(ranks.all_finished());
}

}  // namespace
}  // namespace dlaunch::supervisor::job
