// Logs on a disk that is slow, full, or small.
#include "supervisor/host/io/log_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <latch>

#include "base/io/clock.h"
#include "base/io/files.h"
#include "supervisor/host/io/log_files.h"

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr nanoseconds kSoon = 20s;
constexpr std::uint64_t kMiB = 1U << 20U;

class Logs : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/dlaunch-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  [[nodiscard]] std::string content(const std::string& name) const {
    return read_file(root_ + "/" + name, 64 * kMiB).value_or("(none)");
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file()) sum += entry.file_size();
    }
    return sum;
  }
  void write_file(std::uint64_t generation, std::uint32_t rank, std::size_t size) const {
    const auto file = open_log_file(root_, Generation{generation}, Rank{rank});
    ASSERT_TRUE(file) << file.error().text();
    ASSERT_TRUE(write_all(file->get(), std::string(size, 'x')));
  }

  std::string root_;
};

TEST_F(Logs, NobodyWaitsForADiskThatStallsAndWhatIsDroppedIsCountedInTheFile) {
  std::latch released(1);
  std::atomic<bool> stalled = false;
  LogWriter::Setting setting{root_};
  setting.waiting_bytes_max = kMiB;
  setting.write = [&](int file, std::string_view bytes) {
    stalled = true;
    released.wait();
    return write_all(file, bytes);
  };
  LogWriter writer(setting);
  const auto file = writer.open(Generation{1}, Rank{7});
  const std::string line = std::string(1023, 'a') + "\n";
  const auto began = monotonic_now();
  for (int i = 0; i < 4096; ++i) writer.write(file, line);
  EXPECT_LT(monotonic_now() - began, 5s) << "nothing of it waited";
  EXPECT_FALSE(writer.flush(1ms));
  released.count_down();
  ASSERT_TRUE(writer.flush(kSoon));
  writer.write(file, "later\n");
  ASSERT_TRUE(writer.flush(kSoon));
  EXPECT_TRUE(stalled);
  const auto text = content("generation-1/rank-7.log");
  const auto mark = text.find("\n[dlaunch: ");
  ASSERT_NE(mark, std::string::npos);
  const auto missing = std::stoull(text.substr(mark + 11));
  EXPECT_EQ(mark + missing, 4096U * 1024) << "all of it is there or counted";
  EXPECT_GT(missing, 2 * kMiB);
  EXPECT_THAT(text, HasSubstr("bytes of output are missing here: the disk was too slow]\nlater\n"));
}

TEST_F(Logs, ADiskThatHangsIsNotWaitedForAtTheEnd) {
  std::latch released(1);
  LogWriter::Setting setting{root_};
  setting.write = [&](int, std::string_view) -> Result<void> {
    released.wait();
    return {};
  };
  LogWriter writer(setting);
  writer.write(writer.open(Generation{1}, Rank{0}), "line\n");
  const auto began = monotonic_now();
  EXPECT_FALSE(writer.flush(100ms));
  EXPECT_LT(monotonic_now() - began, 10s);
  released.count_down();
  EXPECT_TRUE(writer.flush(kSoon));
}

TEST_F(Logs, AFullDiskIsSaidWhereOutputIsMissingOnceItIsFullNoMore) {
  std::atomic<bool> full = true;
  LogWriter::Setting setting{root_};
  setting.write = [&](int file, std::string_view bytes) -> Result<void> {
    if (full) return failure_from_errno(ENOSPC, "writing");
    return write_all(file, bytes);
  };
  LogWriter writer(setting);
  const auto file = writer.open(Generation{1}, Rank{0});
  writer.write(file, "12345");
  ASSERT_TRUE(writer.flush(kSoon));
  full = false;
  writer.write(file, "more\n");
  ASSERT_TRUE(writer.flush(kSoon));
  EXPECT_EQ(content("generation-1/rank-0.log"),
            "\n[dlaunch: 5 bytes of output are missing here: No space left on device]\nmore\n");
}

TEST_F(Logs, OneLongGenerationStaysWithinTheBoundAndKeepsItsBeginAndItsEnd) {
  LogWriter::Setting setting{root_};
  setting.bytes_max = 4 * kMiB;
  LogWriter writer(setting);
  const auto noisy = writer.open(Generation{1}, Rank{0});
  const auto quiet = writer.open(Generation{1}, Rank{1});
  writer.write(quiet, "hello\n");
  writer.write(noisy, "begin\n");
  const std::string block(100'000, 'n');
  for (int i = 0; i < 200; ++i) {
    writer.write(noisy, block);
    ASSERT_TRUE(writer.flush(kSoon));
  }
  writer.write(noisy, "end\n");
  ASSERT_TRUE(writer.flush(kSoon));
  EXPECT_LE(bytes(), setting.bytes_max);
  EXPECT_GE(bytes(), setting.bytes_max / 4) << "no more is thrown away than must be";
  EXPECT_TRUE(content("generation-1/rank-0.log").starts_with("begin\n"));
  EXPECT_EQ(content("generation-1/rank-1.log"), "hello\n");
  bool ended = false;
  for (const auto& entry : fs::directory_iterator(root_ + "/generation-1")) {
    ended = ended || content("generation-1/" + entry.path().filename().string()).ends_with("end\n");
  }
  EXPECT_TRUE(ended);
}

TEST_F(Logs, OfOldGenerationsGoFirstButNeverThoseOfTheFirstFailure) {
  for (std::uint64_t generation = 1; generation <= 11; ++generation) {
    write_file(generation, 0, 1000);
    if (generation == 3 || generation == 5) keep_logs(root_, Generation{generation});
  }
  trim_logs(root_, 2500);
  for (std::uint64_t generation = 1; generation <= 11; ++generation) {
    EXPECT_EQ(fs::exists(root_ + "/generation-" + std::to_string(generation)),
              generation == 3 || generation == 11)
        << generation;
  }
}

TEST_F(Logs, ThePresentFileOfEachRankIsNeverDeleted) {
  for (int i = 0; i < 12; ++i) write_file(1, 0, 1000);
  write_file(1, 1, 1000);
  trim_logs(root_, 100);
  EXPECT_TRUE(fs::exists(root_ + "/generation-1/rank-0.11.log"));
  EXPECT_TRUE(fs::exists(root_ + "/generation-1/rank-1.log"));
  EXPECT_FALSE(fs::exists(root_ + "/generation-1/rank-0.10.log"));
  write_file(1, 0, 1);
  EXPECT_TRUE(fs::exists(root_ + "/generation-1/rank-0.12.log")) << "numbers are not used again";
}

}  // namespace
}  // namespace dlaunch::supervisor::host
