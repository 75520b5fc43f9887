#include "supervisor/job/cause.h"

#include <gtest/gtest.h>

namespace dlaunch::supervisor::job {
namespace {

protocol::WorkerExited exited(int code, int signal = 0) {
  protocol::WorkerExited e;
  e.set_rank(3);
  e.set_pid(42);
  e.set_code(code);
  e.set_signal(signal);
  return e;
}

TEST(JudgeExit, SaysWhoWasEndedByWhatAndWhen) {
  auto e = exited(0, 9);
  e.set_step(17);
  e.add_last_lines("loss 2.5");
  const auto happening = judge_exit(e, "gpu02", true);
  ASSERT_TRUE(happening);
  EXPECT_EQ(happening->what, "rank 3 on gpu02 (pid 42) was killed by SIGKILL after step 17");
  EXPECT_EQ(happening->last_lines, std::vector<std::string>{"loss 2.5"});
}

TEST(JudgeExit, TellsEachEndApart) {
  struct Row {
    const char* name;
    int code, signal;
    bool oom, ordered, finished, trainer;
    const char* cause;  ///< nullptr: no fault
    Weight weight;
  };
  constexpr auto kEnded = Weight::ended, kFact = Weight::host_fact;
  const Row rows[] = {
      {"a trainer that is done", 0, 0, false, false, true, true, nullptr, kEnded},
      {"a trainer that ends early", 0, 0, false, false, false, true, "worker_crashed", kEnded},
      {"a trainer with an error", 1, 0, false, false, false, true, "worker_crashed", kEnded},
      {"a program that is done", 0, 0, false, false, false, false, nullptr, kEnded},
      {"a program with an error", 1, 0, false, false, false, false, "program_failed", kEnded},
      {"a program that is killed", 0, 9, false, false, false, false, "worker_crashed", kFact},
      {"an abort by the runtime", 0, 6, false, false, false, true, "worker_crashed", kEnded},
      {"a wrong address", 0, 11, false, false, false, true, "worker_crashed", kFact},
      {"no memory", 0, 9, true, false, false, true, "out_of_memory", kFact},
      {"an end that was ordered", 0, 9, false, true, false, true, nullptr, kFact},
  };
  for (const auto& row : rows) {
    auto e = exited(row.code, row.signal);
    e.set_out_of_memory(row.oom);
    e.set_ordered(row.ordered);
    e.set_finished(row.finished);
    const auto happening = judge_exit(e, "a", row.trainer);
    ASSERT_EQ(happening.has_value(), row.cause != nullptr) << row.name;
    if (!happening) continue;
    EXPECT_EQ(happening->cause, row.cause) << row.name;
    EXPECT_EQ(happening->weight, row.weight) << row.name;
  }
}

TEST(JudgeFailing, TakesALostPeerForAConsequence) {
  protocol::WorkerFailing failing;
  failing.set_category("peer_lost");
  EXPECT_EQ(judge_failing(failing, "a").weight, Weight::cascade);
  failing.set_category("bad_numbers");
  EXPECT_EQ(judge_failing(failing, "a").weight, Weight::exception);
  EXPECT_EQ(judge_failing(failing, "a").cause, "bad_numbers");
  failing.set_category("something new");
  EXPECT_EQ(judge_failing(failing, "a").cause, "worker_crashed");
}

TEST(JudgeFinding, IgnoresWhatItDoesNotKnow) {
  protocol::Finding finding;
  finding.set_kind("weather");
  EXPECT_FALSE(judge_finding(finding, "a"));
  finding.set_kind("port_conflict");
  EXPECT_EQ(judge_finding(finding, "a")->cause, "port_conflict");
  finding.set_kind("undead");
  EXPECT_EQ(judge_finding(finding, "a")->weight, Weight::cascade);
}

Happening happening(Weight weight, nanoseconds at, std::uint32_t rank = 0) {
  Happening h;
  h.weight = weight;
  h.happened_at = Instant{} + at;
  h.host = HostId{rank};
  h.rank = Rank{rank};
  return h;
}

TEST(JudgeCause, PrefersWhatExplainsMoreThenWhatHappenedFirst) {
  struct Row {
    const char* name;
    std::vector<Happening> happenings;
    std::size_t cause;
  };
  const Row rows[] = {
      {"alone", {happening(Weight::cascade, 1s)}, 0},
      {"a kill over a consequence that came first",
       {happening(Weight::cascade, 1s), happening(Weight::host_fact, 2s)},
       1},
      {"an exit over an exception",
       {happening(Weight::exception, 1s), happening(Weight::ended, 2s)},
       1},
      {"a lost agent over the exits of others",
       {happening(Weight::ended, 1s), happening(Weight::agent, 2s)},
       1},
      {"the earlier of two kills",
       {happening(Weight::host_fact, 2s), happening(Weight::host_fact, 1s)},
       1},
      {"the first told of two at once",
       {happening(Weight::ended, 1s), happening(Weight::ended, 1s)},
       0},
  };
  for (const auto& row : rows) EXPECT_EQ(judge_cause(row.happenings), row.cause) << row.name;
}

TEST(Explain, AnExitMeansWhatItsRankSaidBefore) {
  auto said = happening(Weight::exception, 1s, 1);
  said.cause = "storage";
  said.what = "rank 1 on b: the disk is full";
  const std::vector<Happening> before = {happening(Weight::cascade, 1s, 0), said};
  auto exit = happening(Weight::ended, 2s, 1);
  explain(exit, before);
  EXPECT_EQ(exit.cause, "storage");
  EXPECT_EQ(exit.what, said.what);
  EXPECT_EQ(exit.weight, Weight::ended);
  auto consequence = happening(Weight::ended, 2s, 0);
  explain(consequence, before);
  EXPECT_EQ(consequence.weight, Weight::cascade);
  auto killed = happening(Weight::host_fact, 2s, 0);
  explain(killed, before);
  EXPECT_EQ(killed.weight, Weight::host_fact) << "a kill is a fact of its own";
  auto other = happening(Weight::ended, 2s, 2);
  explain(other, before);
  EXPECT_EQ(other.weight, Weight::ended);
}

TEST(SignalName, NamesWhatPeopleKnow) {
  EXPECT_EQ(signal_name(9), "SIGKILL");
  EXPECT_EQ(signal_name(64), "signal 64");
}

}  // namespace
}  // namespace dlaunch::supervisor::job
