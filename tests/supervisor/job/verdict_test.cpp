#include "supervisor/job/verdict.h"

#include <gtest/gtest.h>

#include "supervisor/job/exit_code.h"
#include "supervisor/job/restart_budget.h"
#include "supervisor/job/user_error.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr Instant kStart{1h};

TEST(JudgeRetry, AnswersEachCase) {
  struct Row {
    const char* name;
    const char* cause;
    int code, signal;
    bool users_error;
    std::uint32_t restarts_max, restarts_left, without_progress, free_retries;
    int exit_code;  ///< 0: try again
  };
  const Row rows[] = {
      {"a crash", "worker_crashed", 0, 9, false, 10, 10, 1, 0, 0},
      {"a lost host", "host_lost", 0, 0, false, 0, 0, 9, 99, 0},
      {"no budget", "worker_crashed", 0, 9, false, 10, 0, 1, 0, 76},
      {"no progress", "worker_crashed", 0, 9, false, 10, 5, 3, 0, 76},
      {"the user's error", "program_failed", 3, 0, true, 10, 5, 2, 0, 3},
      {"the user's error, a code of dlaunch's", "program_failed", 70, 0, true, 10, 5, 2, 0, 1},
      {"the user's error by signal", "worker_crashed", 0, 11, true, 10, 5, 2, 0, 139},
      {"no restarts wanted", "program_failed", 5, 0, false, 0, 0, 1, 0, 5},
      {"no restarts wanted, killed", "worker_crashed", 0, 15, false, 0, 0, 1, 0, 143},
      {"numbers that are none", "bad_numbers", 1, 0, false, 10, 10, 1, 0, 1},
      {"a port that is taken", "port_conflict", 0, 0, false, 0, 0, 0, 10, 0},
      {"a port that is taken for ever", "port_conflict", 0, 0, false, 0, 0, 0, 11, 76},
      {"storage that comes back", "storage", 1, 0, false, 0, 0, 0, 1, 0},
      {"storage that does not", "storage", 1, 0, false, 0, 0, 0, 11, 74},
  };
  for (const auto& row : rows) {
    RetryInputs inputs;
    inputs.cause.cause = row.cause;
    inputs.cause.code = row.code;
    inputs.cause.signal = row.signal;
    inputs.users_error = row.users_error;
    inputs.restarts_max = row.restarts_max;
    inputs.restarts_left = row.restarts_left;
    inputs.restarts_window = 1h;
    inputs.without_progress = row.without_progress;
    inputs.free_retries = row.free_retries;
    const auto refusal = judge_retry(inputs);
    EXPECT_EQ(refusal ? refusal->code : 0, row.exit_code) << row.name;
    EXPECT_TRUE(!refusal || !refusal->sentence.empty()) << row.name;
  }
}

TEST(JudgeRetry, SaysTheTrueCodeWhereTheJobReturnsAnother) {
  RetryInputs inputs;
  inputs.cause.cause = "program_failed";
  inputs.cause.code = 77;
  inputs.users_error = true;
  inputs.restarts_left = 1;
  const auto refusal = judge_retry(inputs);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, 1);
  EXPECT_NE(refusal->sentence.find("77"), std::string::npos) << refusal->sentence;
}

TEST(FromProgram, KeepsWhatIsNotDlaunchsOwn) {
  EXPECT_EQ(from_program(63, 0), 63);
  EXPECT_EQ(from_program(64, 0), 1);
  EXPECT_EQ(from_program(127, 0), 1);
  EXPECT_EQ(from_program(134, 0), 134);
  EXPECT_EQ(from_program(0, 0), 1) << "it ended too early";
  EXPECT_EQ(from_program(0, 11), 139);
}

TEST(JudgePause, DoublesForStorageUpToHalfAMinute) {
  EXPECT_EQ(judge_pause("storage", 1), 0ns);
  EXPECT_EQ(judge_pause("storage", 2), 1s);
  EXPECT_EQ(judge_pause("storage", 3), 2s);
  EXPECT_EQ(judge_pause("storage", 10), 30s);
  EXPECT_EQ(judge_pause("port_conflict", 5), 0ns);
}

TEST(JudgeRegrouping, NamesWhatBecameOfTheHosts) {
  const auto name = [](HostId id) { return "h" + std::to_string(id.value); };
  rendezvous::Plan two, one, replaced;
  two.members = {{HostId{0}, Rank{0}, 1, ""}, {HostId{1}, Rank{1}, 1, ""}};
  one.members = {{HostId{0}, Rank{0}, 1, ""}};
  replaced.members = {{HostId{0}, Rank{0}, 1, ""}, {HostId{2}, Rank{1}, 1, ""}};
  replaced.replaced = {{HostId{1}, HostId{2}}};
  EXPECT_EQ(judge_regrouping(two, two, name).verdict, "restart_workers");
  EXPECT_EQ(judge_regrouping(two, one, name).verdict, "shrink");
  EXPECT_EQ(judge_regrouping(two, replaced, name).verdict, "replace_host");
  EXPECT_EQ(judge_regrouping(two, replaced, name).what, "h2 takes the ranks of h1");
}

TEST(RestartBudget, SpendsLapseAfterTheWindow) {
  RestartBudget budget(2, 1h);
  EXPECT_TRUE(budget.spend(kStart));
  EXPECT_TRUE(budget.spend(kStart + 30min));
  EXPECT_FALSE(budget.spend(kStart + 59min));
  EXPECT_EQ(budget.left(kStart + 61min), 1U);
  EXPECT_TRUE(budget.spend(kStart + 61min));
}

TEST(RestartBudget, ACheckpointGivesOneBackAndNeverMoreThanThereWere) {
  RestartBudget budget(1, 1h);
  budget.give_back();
  EXPECT_EQ(budget.left(kStart), 1U);
  EXPECT_TRUE(budget.spend(kStart));
  budget.give_back();
  EXPECT_EQ(budget.left(kStart), 1U);
}

TEST(RestartBudget, ZeroMeansNone) { EXPECT_FALSE(RestartBudget(0, 1h).spend(kStart)); }

TEST(UserErrorRule, NeedsTheSameEndAtTheSamePlaceTwice) {
  struct Row {
    const char* name;
    ProgramEnd first, second;
    bool users;
  };
  const Row rows[] = {
      {"early twice", {3, 0, "bad", 1s, {}}, {3, 0, "bad", 100s, {}}, true},
      {"late, at the same step", {3, 0, "bad", 1h, Step{7}}, {3, 0, "bad", 2h, Step{7}}, true},
      {"late, elsewhere", {3, 0, "bad", 1h, Step{7}}, {3, 0, "bad", 2h, Step{8}}, false},
      {"another code", {3, 0, "bad", 1s, {}}, {4, 0, "bad", 1s, {}}, false},
      {"another line", {3, 0, "bad", 1s, {}}, {3, 0, "worse", 1s, {}}, false},
      {"no line", {3, 0, "", 1s, {}}, {3, 0, "", 1s, {}}, false},
      {"killed", {0, 9, "bad", 1s, {}}, {0, 9, "bad", 1s, {}}, false},
      {"ended", {0, 15, "bad", 1s, {}}, {0, 15, "bad", 1s, {}}, false},
      {"a wrong address", {0, 11, "bad", 1s, {}}, {0, 11, "bad", 1s, {}}, true},
      {"an abort", {0, 6, "bad", 1s, {}}, {0, 6, "bad", 1s, {}}, true},
  };
  for (const auto& row : rows) {
    UserErrorRule rule;
    EXPECT_FALSE(rule.judge(row.first)) << row.name;
    EXPECT_EQ(rule.judge(row.second), row.users) << row.name;
  }
}

TEST(UserErrorRule, ForgetsWhenSomethingElseHappensBetween) {
  UserErrorRule rule;
  EXPECT_FALSE(rule.judge({3, 0, "bad", 1s, {}}));
  EXPECT_FALSE(rule.judge({0, 9, "bad", 1s, {}}));
  EXPECT_FALSE(rule.judge({3, 0, "bad", 1s, {}}));
}

}  // namespace
}  // namespace dlaunch::supervisor::job
