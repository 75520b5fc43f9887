#include "base/io/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <span>

#include "base/content_hash.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch {
namespace {

using testing::HasSubstr;

TEST(ReadFile, ReadsNothingBeyondItsBound) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  ASSERT_TRUE(replace_file(path, "12345"));
  EXPECT_EQ(read_file(path, 100).value(), "12345");
  EXPECT_EQ(read_file(path, 4).value(), "1234");
}

TEST(ReadFile, IsNotHeldUpByAPipeWithoutAWriter) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(read_file(path, 100).value(), "");
}

TEST(ReadFile, NamesTheFileThatIsMissing) {
  EXPECT_EQ(read_file("/does/not/exist", 1).error().text(),
            "opening /does/not/exist: No such file or directory");
}

TEST(HashFile, IsTheHashOfAllBytes) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  // More than is read at once.
  const std::string content((1 << 20) + 12'345, 'x');
  ASSERT_TRUE(replace_file(path, content));
  const auto hashed = hash_file(path);
  ASSERT_TRUE(hashed) << hashed.error().text();
  EXPECT_EQ(hashed->bytes, content.size());
  EXPECT_EQ(hashed->hash, content_hash(std::as_bytes(std::span(content))));
}

TEST(HashFile, SaysWhyItCouldNot) {
  const TemporaryDirectory directory;
  EXPECT_THAT(hash_file(directory.path() / "missing").error().text(), HasSubstr("No such file"));
  EXPECT_EQ(hash_file(directory.path()).error().code, std::errc::is_a_directory);
}

TEST(ReplaceFile, PutsTheNewContentInPlaceOfTheOld) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "manifest.json";
  ASSERT_TRUE(replace_file(path, "old"));
  ASSERT_TRUE(replace_file(path, "new"));
  EXPECT_EQ(read_file(path, 100).value(), "new");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".tmp"));
}

TEST(ReplaceFile, LeavesTheOldContentWhereItFails) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "file";
  ASSERT_TRUE(replace_file(path, "old"));
  ASSERT_TRUE(std::filesystem::create_directory(path.string() + ".tmp"));
  const auto replaced = replace_file(path, "new");
  ASSERT_FALSE(replaced);
  EXPECT_THAT(replaced.error().text(), HasSubstr("file.tmp"));
  EXPECT_EQ(read_file(path, 100).value(), "old");
}

TEST(SyncDirectory, NeedsADirectory) {
  const TemporaryDirectory directory;
  EXPECT_TRUE(sync_directory(directory.path()));
  ASSERT_TRUE(replace_file(directory.path() / "file", ""));
  EXPECT_EQ(sync_directory(directory.path() / "file").error().code, std::errc::not_a_directory);
}

}  // namespace
}  // namespace dlaunch
