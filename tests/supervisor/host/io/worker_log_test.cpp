#include "supervisor/host/io/worker_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/io/files.h"
#include "protocol/limits.h"
#include "supervisor/host/io/file_progress.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;

class WorkerLogs : public testing::Test {
 protected:
  [[nodiscard]] std::string content(const std::string& name) const {
    return read_file(root_ + "/" + name, 1 << 20).value_or("(none)");
  }

  const TemporaryDirectory temporary_;
  const std::string root_ = temporary_.text();
};

TEST_F(WorkerLogs, AreNeverOverwritten) {
  for (const auto* text : {"first\n", "second\n"}) {
    auto log = WorkerLog::open(root_, Generation{2}, Rank{7});
    ASSERT_TRUE(log) << log.error().text();
    (void)log->append(text, 1000);
  }
  EXPECT_EQ(content("generation-2/rank-7.log"), "first\n");
  EXPECT_EQ(content("generation-2/rank-7.1.log"), "second\n");
}

TEST_F(WorkerLogs, PassOnWholeLinesAndKeepTheLastTwenty) {
  auto log = WorkerLog::open(root_, Generation{1}, Rank{0});
  ASSERT_TRUE(log);
  EXPECT_EQ(log->append("one\ntw", 1000).text, "one\n");
  EXPECT_EQ(log->append("o\n", 1000).text, "two\n");
  for (int i = 0; i < 30; ++i) (void)log->append(std::to_string(i) + "\n", 1000);
  (void)log->append("no end", 1000);
  log->finish();
  ASSERT_EQ(log->last_lines().size(), protocol::kLastLinesMax);
  EXPECT_EQ(log->last_lines().back(), "no end");
  EXPECT_EQ(log->last_lines().front(), "11");
}

TEST_F(WorkerLogs, MakeTextOfWhateverAProgramPrintsButKeepItsBytes) {
  auto log = WorkerLog::open(root_, Generation{1}, Rank{0});
  ASSERT_TRUE(log);
  std::string bar;
  for (int i = 0; i < 200; ++i) bar += "█";
  const std::string printed = "\xFF\ngr\xFC\xDF\n" + bar + "\n";
  const auto passed = log->append(printed, 10'000);
  EXPECT_EQ(passed.text, "\uFFFD\ngr\uFFFD\uFFFD\n" + bar + "\n");
  ASSERT_EQ(log->last_lines().size(), 3U);
  EXPECT_EQ(log->last_lines()[1], "gr\uFFFD\uFFFD");
  EXPECT_EQ(log->last_lines()[2], bar.substr(0, 510)) << "cut between two characters";
  EXPECT_EQ(content("generation-1/rank-0.log"), printed);
}

TEST_F(WorkerLogs, DropWhatIsTooMuchForTheWireButNotForTheFile) {
  auto log = WorkerLog::open(root_, Generation{1}, Rank{0});
  ASSERT_TRUE(log);
  const auto passed = log->append("aaaa\nbbbb\ncccc\n", 10);
  EXPECT_EQ(passed.text, "aaaa\nbbbb\n");
  EXPECT_EQ(passed.dropped, 1U);
  EXPECT_EQ(content("generation-1/rank-0.log"), "aaaa\nbbbb\ncccc\n");
}

TEST_F(WorkerLogs, OfOldGenerationsGoFirstButNeverThoseOfTheFirstFailure) {
  for (std::uint64_t generation = 1; generation <= 11; ++generation) {
    auto log = WorkerLog::open(root_, Generation{generation}, Rank{0});
    ASSERT_TRUE(log);
    (void)log->append(std::string(1000, 'x'), 0);
    if (generation == 3 || generation == 5) keep_logs(root_, Generation{generation});
  }
  trim_logs(root_, 2500);
  for (std::uint64_t generation = 1; generation <= 11; ++generation) {
    EXPECT_EQ(fs::exists(root_ + "/generation-" + std::to_string(generation)),
              generation == 3 || generation == 11)
        << generation;
  }
}

TEST_F(WorkerLogs, ProgressIsAlsoSeenByCheckpointFiles) {
  const auto pattern = root_ + "/run*/step-*/done";
  EXPECT_EQ(newest_checkpoint(pattern), std::nullopt);
  for (const auto* place : {"/run/step-5", "/run/step-120", "/run/step-200"}) {
    fs::create_directories(root_ + place);
  }
  ASSERT_TRUE(replace_file(root_ + "/run/step-5/done", ""));
  ASSERT_TRUE(replace_file(root_ + "/run/step-120/done", ""));
  EXPECT_EQ(newest_checkpoint(pattern), 120U) << "200 is not done";
  for (const auto* name : {"/run/a.pt", "/run/b.pt"}) ASSERT_TRUE(replace_file(root_ + name, ""));
  EXPECT_EQ(newest_checkpoint(root_ + "/run/*.pt"), 2U);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
