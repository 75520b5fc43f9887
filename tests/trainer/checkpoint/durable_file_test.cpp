#include "trainer/checkpoint/io/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/content_hash.h"
#include "tests/base/io/temporary_directory.h"
#include "tests/trainer/checkpoint/plain_files.h"
#include "trainer/checkpoint/io/aligned_buffer.h"

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

AlignedBuffer image_of(const std::string& content) {
  AlignedBuffer image;
  EXPECT_TRUE(image.reserve(content.size()));
  std::memset(image.bytes().data(), 0, image.bytes().size());
  std::memcpy(image.bytes().data(), content.data(), content.size());
  return image;
}

TEST(WriteImage, MakesAFileOfExactlyTheBytes) {
  const TemporaryDirectory directory;
  const std::atomic<bool> cancelled{false};
  for (const std::size_t size : {1UL, 4095UL, 4096UL, 4097UL, 8UL * 1024 * 1024 + 5}) {
    std::string content(size, 'x');
    for (std::size_t i = 0; i < size; i += 7) content[i] = static_cast<char>(i);
    const AlignedBuffer image = image_of(content);
    const auto path = directory.path() / std::to_string(size);
    const auto written = write_image(path, image.bytes(), size, cancelled);
    ASSERT_TRUE(written) << written.error().text();
    EXPECT_EQ(read_file(path), content) << size;
    EXPECT_EQ(written->hash, content_hash(std::as_bytes(std::span(content))));
  }
}

TEST(WriteImage, NeverOverwrites) {
  const TemporaryDirectory directory;
  const std::atomic<bool> cancelled{false};
  const auto path = directory.path() / "shard";
  write_file(path, "what another generation wrote");
  const auto written = write_image(path, image_of("mine").bytes(), 4, cancelled);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, std::errc::file_exists);
  EXPECT_THAT(written.error().doing, HasSubstr(path.string()));
  EXPECT_EQ(read_file(path), "what another generation wrote");
}

TEST(WriteImage, LeavesNothingBehindWhenItIsCancelled) {
  const TemporaryDirectory directory;
  const std::atomic<bool> cancelled{true};
  const auto path = directory.path() / "shard";
  const auto written = write_image(path, image_of("mine").bytes(), 4, cancelled);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, std::errc::operation_canceled);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(WriteImage, SaysWhereTheRoomEndedAndLeavesNothingBehind) {
  const TemporaryDirectory directory;
  const std::atomic<bool> cancelled{false};
  const auto path = directory.path() / "shard";
  const std::string content(64 * 1024, 'x');
  const AlignedBuffer image = image_of(content);
  // A limit on the size of files stands for a full disk, which a test cannot have everywhere.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit low{16 * 1024, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto written = write_image(path, image.bytes(), content.size(), cancelled);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, std::errc::file_too_large);
  EXPECT_THAT(written.error().doing, HasSubstr("taking room for 65536 bytes"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(MakeDirectories, MayBeDoneByAllRanksAtOnce) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "a" / "b" / "step-1.g1.partial";
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&] {
      const auto made = make_directories(path);
      EXPECT_TRUE(made) << made.error().text();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST(MakeDirectories, SaysWhatIsInTheWay) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "file", "");
  EXPECT_FALSE(make_directories(directory.path() / "file"));
  const auto made = make_directories(directory.path() / "file" / "below");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("file/below"));
}

}  // namespace
}  // namespace dlaunch::checkpoint
