// What a controller that is started again makes of the rows of the one before.
#include <gtest/gtest.h>

#include <vector>

#include "supervisor/job/journal_rows.h"

namespace dlaunch::supervisor::job {
namespace {

/// `spent`: moments, like "1, 2".
std::string generation(int number, const std::string& members, const std::string& spent, int best) {
  return R"({"generation":)" + std::to_string(number) + R"(,"members":[)" + members +
         R"(],"seats":[0],"counted":{"restarts":[)" + spent + R"(]},"best_step":)" +
         std::to_string(best) + "}";
}
std::string member(int id) {
  return R"({"id":)" + std::to_string(id) + R"(,"first_rank":0,"workers":1,"data_address":"a"})";
}

std::vector<JournalEntry> long_run() {
  return {{"generation", generation(1, member(0) + "," + member(1), "", 0)},
          {"restoring", R"({"generation":1,"step":null,"steps":[],"damaged":[]})"},
          {"running", R"({"generation":1})"},
          {"progressed", R"({"generation":1,"best_step":5})"},
          {"committing", R"({"step":10,"generation":1,"files":[{"name":"a"}],"delete":[]})"},
          {"committed", R"({"step":10,"best_step":12,"cost":7})"},
          {"committing", R"({"step":20,"generation":1,"files":[{"name":"b"}],"delete":[10]})"},
          {"drained", R"({"id":7})"},
          {"stopping", R"({"reason":"of before","preempted":false})"},
          {"ended", R"({"code":130,"state":"stopped","sentence":"of before"})"},
          {"resumed", "{}"},
          {"generation", generation(2, member(2), "1, 2, 3", 30)},
          {"broken", R"({"generation":2,"reason":"it broke","planned":true,"incident":null})"},
          {"generation", generation(3, member(3), "1, 2, 3", 30)},
          {"restoring", R"({"generation":3,"step":20,"steps":[20],"damaged":[15]})"},
          {"running", R"({"generation":3})"}};
}

TEST(Recover, OnlyTheNewestGenerationIsLeftOfALongRun) {
  const auto recovered = recover(long_run(), 4);
  EXPECT_EQ(recovered.incidents, 4U);
  EXPECT_EQ(recovered.last_generation, Generation{3});
  ASSERT_TRUE(recovered.plan);
  ASSERT_EQ(recovered.plan->members.size(), 1U);
  EXPECT_EQ(recovered.plan->members.front().host, HostId{3});
  EXPECT_EQ(recovered.counted.restarts.size(), 3U);
  EXPECT_EQ(recovered.best_step, Step{30});
  EXPECT_EQ(recovered.disk_steps, std::vector{Step{20}});
  EXPECT_EQ(recovered.damaged_steps, std::vector{Step{15}});
  EXPECT_TRUE(recovered.committing.empty());
  EXPECT_TRUE(recovered.inspected);
  EXPECT_TRUE(recovered.went);
  EXPECT_EQ(recovered.save_cost, 7ns) << "that of the newest commit, whenever it was";
  EXPECT_FALSE(recovered.progressed);
  EXPECT_FALSE(recovered.broken);
  EXPECT_FALSE(recovered.ended);
  EXPECT_FALSE(recovered.stopping);
  EXPECT_EQ(recovered.drained, std::set<HostId>{}) << "a resumed job begins with all hosts";
}

TEST(Recover, AGenerationThatHasNotBegunYetLeavesWhatIsOnDisk) {
  auto rows = long_run();
  rows.push_back({"committing", R"({"step":30,"generation":3,"files":[],"delete":[20]})"});
  rows.push_back({"committed", R"({"step":30,"best_step":33})"});
  rows.push_back({"drained", R"({"id":5})"});
  rows.push_back({"stopping", R"({"reason":"enough","preempted":true})"});
  rows.push_back({"generation", generation(4, member(4), "2, 3", 33)});
  const auto recovered = recover(rows, 0);
  EXPECT_EQ(recovered.last_generation, Generation{4});
  EXPECT_EQ(recovered.plan->members.front().host, HostId{4});
  EXPECT_EQ(recovered.disk_steps, std::vector{Step{30}});
  EXPECT_EQ(recovered.damaged_steps, std::vector{Step{15}});
  EXPECT_EQ(recovered.drained, std::set{HostId{5}});
  EXPECT_FALSE(recovered.restoring);
  EXPECT_FALSE(recovered.went);
  ASSERT_TRUE(recovered.stopping);
  EXPECT_EQ(recovered.stopping->reason, "enough");
}

TEST(Recover, AStopAfterAJobWasTakenUpAgainIsNotThatOfBefore) {
  // Two generations after the end, of which only the newer one is looked at closely.
  const auto with = [](JournalEntry stop) {
    auto rows = long_run();
    rows.insert(rows.begin() + 12, std::move(stop));
    return recover(rows, 0);
  };
  const auto recovered = with({"stopping", R"({"reason":"anew","preempted":false})"});
  ASSERT_TRUE(recovered.stopping);
  EXPECT_EQ(recovered.stopping->reason, "anew");
}

}  // namespace
}  // namespace dlaunch::supervisor::job
