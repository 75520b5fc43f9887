// The keeper with real processes: controllers that die, fall silent, end, or cannot begin.
#include "launcher/controller/io/keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "launcher/controller/io/process_io.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/state_lock.h"
#include "tests/base/io/temporary_directory.h"
#include "tests/base/io/wait_until.h"

namespace dlaunch::launcher::controller {
namespace {

using testing::HasSubstr;

class KeeperTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const auto* file : {kKeeperLock, kControllerLock}) {
      if (is_locked(path(), file)) ::kill(holder(file), SIGKILL);
    }
    EXPECT_TRUE(wait_until([&] { return !alive(); }));
  }
  [[nodiscard]] const std::string& path() const { return directory_.text(); }
  [[nodiscard]] bool alive() const {
    return is_locked(path(), kKeeperLock) || is_locked(path(), kControllerLock);
  }
  Result<StartReport> start(const std::string& orders) {
    std::ofstream(path() + "/orders") << orders;
    return start_keeper(path(), KEEPER_TEST_PROGRAM);
  }
  /// From the text in the lock: "pid 4242 on …".
  [[nodiscard]] pid_t holder(const char* file) const {
    std::ifstream text(path() + "/" + file);
    std::string word;
    pid_t pid = 0;
    text >> word >> pid;
    return pid;
  }
  [[nodiscard]] std::int64_t starts() const {
    auto raw = Sqlite::open(path() + "/run.db", Sqlite::Mode::read);
    auto rows = raw->prepare("SELECT value FROM meta WHERE key = 'incarnation'");
    return rows && rows->step() ? rows->integer(0) : 0;
  }
  [[nodiscard]] std::optional<EndRow> end() const {
    auto reader = RunReader::open(path());
    return reader ? *reader->end() : std::nullopt;
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(KeeperTest, SaysThatTheControllerIsUpAndEndsWithTheJob) {
  const auto report = start("finish");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->code, 0);
  EXPECT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(end()->code, 0);
}

TEST_F(KeeperTest, PassesOnWhyAControllerCannotBeginAndDoesNotTryAgain) {
  const auto report = start("refuse");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->code, 65);
  EXPECT_THAT(report->sentence, HasSubstr("unknown key"));
  EXPECT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(starts(), 1);
}

TEST_F(KeeperTest, StartsAKilledControllerAgain) {
  ASSERT_TRUE(start("live live finish"));
  const auto first = holder(kControllerLock);
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] { return starts() == 2 && is_locked(path(), kControllerLock); }));
  EXPECT_NE(holder(kControllerLock), first);
  EXPECT_FALSE(end()) << "the job goes on";
  ASSERT_TRUE(wait_until([&] { return holder(kControllerLock) != first; }));
  ::kill(holder(kControllerLock), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(starts(), 3);
  EXPECT_EQ(end()->code, 0);
}

TEST_F(KeeperTest, TakesSigtermOfTheControllerForADeath) {
  ASSERT_TRUE(start("terminate finish"));
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(starts(), 2);
  EXPECT_EQ(end()->code, 0);
}

TEST_F(KeeperTest, KillsAControllerThatFellSilent) {
  ASSERT_TRUE(start("silent finish"));
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(starts(), 2);
}

TEST_F(KeeperTest, GivesUpAfterTheFourthDeathInAMinuteWithSeventy) {
  ASSERT_TRUE(start("die"));
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_EQ(starts(), 4);
  ASSERT_TRUE(end());
  EXPECT_EQ(end()->code, 70);
  EXPECT_THAT(end()->sentence, HasSubstr("signal 6"));
}

TEST_F(KeeperTest, WaitsForTheNextControllerWhenTheFirstDiesBeforeItIsUp) {
  const auto report = start("die-early live");
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->code, 0);
  EXPECT_EQ(starts(), 2);
}

TEST_F(KeeperTest, AControllerGetsLargePages) {
  ::unsetenv("GLIBC_TUNABLES");  // what the user sets stays
  ASSERT_TRUE(start("live finish"));
  std::ifstream file("/proc/" + std::to_string(holder(kControllerLock)) + "/environ");
  const std::string environment((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(environment, HasSubstr("GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
  ::kill(holder(kControllerLock), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
}

TEST(LargePages, AreNotPassedOnAndDoNotReplaceWhatTheUserSet) {
  ::unsetenv("GLIBC_TUNABLES");
  prefer_large_pages();
  EXPECT_STREQ(::getenv("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1");
  forget_large_pages();
  EXPECT_EQ(::getenv("GLIBC_TUNABLES"), nullptr);
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.check=3", 1);
  prefer_large_pages();
  forget_large_pages();
  EXPECT_STREQ(::getenv("GLIBC_TUNABLES"), "glibc.malloc.check=3");
  ::unsetenv("GLIBC_TUNABLES");
}

TEST_F(KeeperTest, ControllersThatAlwaysDieBeforeTheyAreUpAreReported) {
  const auto report = start("die-early");
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().text(), HasSubstr("ended before it was up"));
}

TEST_F(KeeperTest, ASecondKeeperOfTheSameJobIsRefused) {
  ASSERT_TRUE(start("live"));
  const auto second = start_keeper(path(), KEEPER_TEST_PROGRAM);
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_EQ(second->code, 64);
  EXPECT_THAT(second->sentence, HasSubstr("has a keeper already"));
}

TEST_F(KeeperTest, AControllerOutlivesItsKeeperAndItsDeathIsNotASuccess) {
  ASSERT_TRUE(start("live"));
  ASSERT_EQ(::kill(holder(kKeeperLock), SIGKILL), 0);
  ASSERT_TRUE(wait_until([&] { return !is_locked(path(), kKeeperLock); }));
  ::kill(holder(kControllerLock), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return !alive(); }));
  EXPECT_FALSE(end());
}

}  // namespace
}  // namespace dlaunch::launcher::controller
