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
  void TearDown() override { writer_.reset(); }
  [[nodiscard]] std::string content(const std::string& name) const {
    EXPECT_TRUE(writer_->flush(20s));
    return read_file(root_ + "/" + name, 1 << 20).value_or("(none)");
  }

  const TemporaryDirectory temporary_;
  const std::string root_ = temporary_.text();
  std::shared_ptr<LogWriter> writer_ = std::make_shared<LogWriter>(LogWriter::Setting{root_});
};

TEST_F(WorkerLogs, AreNeverOverwritten) {
  for (const auto* text : {"first\n", "second\n"}) {
    WorkerLog log(writer_, Generation{2}, Rank{7});
    (void)log.append(text, 1000);
  }
  EXPECT_EQ(content("generation-2/rank-7.log"), "first\n");
  EXPECT_EQ(content("generation-2/rank-7.1.log"), "second\n");
}

TEST_F(WorkerLogs, PassOnWholeLinesAndKeepTheLastTwenty) {
  WorkerLog log(writer_, Generation{1}, Rank{0});
  EXPECT_EQ(log.append("one\ntw", 1000).text, "one\n");
  EXPECT_EQ(log.append("o\n", 1000).text, "two\n");
  for (int i = 0; i < 30; ++i) (void)log.append(std::to_string(i) + "\n", 1000);
  (void)log.append("no end", 1000);
  log.finish();
  ASSERT_EQ(log.last_lines().size(), protocol::kLastLinesMax);
  EXPECT_EQ(log.last_lines().back(), "no end");
  EXPECT_EQ(log.last_lines().front(), "11");
}

TEST_F(WorkerLogs, MakeTextOfWhateverAProgramPrintsButKeepItsBytes) {
  WorkerLog log(writer_, Generation{1}, Rank{0});
  std::string bar;
  for (int i = 0; i < 200; ++i) bar += "█";
  const std::string printed = "\xFF\ngr\xFC\xDF\n" + bar + "\n";
  const auto passed = log.append(printed, 10'000);
  EXPECT_EQ(passed.text, "\uFFFD\ngr\uFFFD\uFFFD\n" + bar + "\n");
  ASSERT_EQ(log.last_lines().size(), 3U);
  EXPECT_EQ(log.last_lines()[1], "gr\uFFFD\uFFFD");
  EXPECT_EQ(log.last_lines()[2], bar.substr(0, 510)) << "cut between two characters";
  EXPECT_EQ(content("generation-1/rank-0.log"), printed);
}

TEST_F(WorkerLogs, DropWhatIsTooMuchForTheWireButNotForTheFile) {
  WorkerLog log(writer_, Generation{1}, Rank{0});
  const auto passed = log.append("aaaa\nbbbb\ncccc\n", 10);
  EXPECT_EQ(passed.text, "aaaa\nbbbb\n");
  EXPECT_EQ(passed.dropped, 1U);
  EXPECT_EQ(content("generation-1/rank-0.log"), "aaaa\nbbbb\ncccc\n");
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
