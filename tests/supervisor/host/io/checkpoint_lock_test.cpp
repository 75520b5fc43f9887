// The lock of a checkpoint directory: who gets it, who keeps it, and that it is never two.
#include "supervisor/host/io/checkpoint_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <thread>

#include "base/io/files.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;

class CheckpointLock : public testing::Test {
 protected:
  [[nodiscard]] std::string lock() const { return directory_ + "/.dlaunch-lock"; }
  [[nodiscard]] bool takes(const std::string& job) const {
    const auto holder = take_lock(directory_, job, 60s);
    EXPECT_TRUE(holder) << holder.error().text();
    return holder && !*holder;
  }
  void age(const std::string& path) const {
    const auto hour_ago = fs::last_write_time(path) - std::chrono::hours(1);
    fs::last_write_time(path, hour_ago);
  }
  /// So many jobs ask at the same moment; who got it.
  [[nodiscard]] std::vector<std::string> race(int jobs) const {
    std::vector<std::string> winners;
    std::vector<std::thread> threads;
    std::vector<char> won(static_cast<std::size_t>(jobs));
    std::barrier start(jobs);
    for (int job = 0; job < jobs; ++job) {
      threads.emplace_back([&, job] {
        start.arrive_and_wait();
        won.at(static_cast<std::size_t>(job)) = takes("job-" + std::to_string(job)) ? 1 : 0;
      });
    }
    for (auto& thread : threads) thread.join();
    for (int job = 0; job < jobs; ++job) {
      if (won.at(static_cast<std::size_t>(job)) != 0) {
        winners.push_back("job-" + std::to_string(job));
      }
    }
    return winners;
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.text();
};

TEST_F(CheckpointLock, OfJobsThatAskAtTheSameMomentExactlyOneGetsIt) {
  for (int round = 0; round < 200; ++round) {
    const auto winners = race(6);
    ASSERT_EQ(winners.size(), 1U) << "round " << round;
    ASSERT_EQ(read_file(lock(), 100).value_or(""), winners.front());
    release_lock(directory_, winners.front());
    ASSERT_EQ(files(), 0U);
  }
}

TEST_F(CheckpointLock, OneOfManyTakesAStaleOneOver) {
  for (int round = 0; round < 200; ++round) {
    ASSERT_TRUE(replace_file(lock(), "job-of-before"));
    age(lock());
    const auto winners = race(6);
    ASSERT_EQ(winners.size(), 1U) << "round " << round;
    ASSERT_EQ(read_file(lock(), 100).value_or(""), winners.front());
    ASSERT_EQ(files(), 1U) << "nothing is left of the taking";
    release_lock(directory_, winners.front());
  }
}

TEST_F(CheckpointLock, OfALivingJobIsRespectedAndAStaleOneIsNot) {
  EXPECT_TRUE(takes("job-1"));
  EXPECT_TRUE(takes("job-1")) << "its own";
  EXPECT_EQ(take_lock(directory_, "job-2", 60s).value(), "job-1");
  age(lock());
  EXPECT_TRUE(takes("job-2"));
  EXPECT_FALSE(renew_lock(directory_, "job-1")) << "it lost the lock";
  EXPECT_TRUE(renew_lock(directory_, "job-2"));
  release_lock(directory_, "job-1");
  EXPECT_TRUE(fs::exists(lock()));
  release_lock(directory_, "job-2");
  EXPECT_FALSE(fs::exists(lock()));
}

TEST_F(CheckpointLock, StaysItsJobsAsLongAsItIsRenewed) {
  EXPECT_TRUE(takes("job-1"));
  age(lock());
  EXPECT_TRUE(renew_lock(directory_, "job-1"));
  EXPECT_FALSE(takes("job-2"));
  fs::remove(lock());
  EXPECT_TRUE(renew_lock(directory_, "job-1")) << "somebody deleted it";
  EXPECT_FALSE(takes("job-2"));
}

TEST_F(CheckpointLock, AnAgentThatDiedWhileItTookItOverIsNotWaitedForForever) {
  ASSERT_TRUE(replace_file(lock(), "job-of-before"));
  age(lock());
  struct stat status {};
  ASSERT_EQ(::stat(lock().c_str(), &status), 0);
  const auto nanos = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
  const auto mark =
      lock() + "-over-" + std::to_string(status.st_ino) + "-" + std::to_string(nanos) + "-0";
  ASSERT_TRUE(replace_file(mark, "job-1"));
  age(mark);
  EXPECT_TRUE(takes("job-2"));
  EXPECT_EQ(files(), 1U);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
