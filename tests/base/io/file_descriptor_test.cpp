#include "base/io/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <type_traits>

#include "base/io/descriptor_limit.h"

namespace dlaunch {
namespace {

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

FileDescriptor opened() { return FileDescriptor(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

TEST(FileDescriptor, ClosesWhatItOwnsAtItsEnd) {
  int number = -1;
  {
    const auto owner = opened();
    number = owner.get();
    ASSERT_TRUE(owner.is_open());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(FileDescriptor, HasOneOwnerAtATime) {
  static_assert(!std::is_copy_constructible_v<FileDescriptor>);
  static_assert(!std::is_copy_assignable_v<FileDescriptor>);
  auto first = opened();
  const int number = first.get();
  FileDescriptor second(std::move(first));
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move): empty by contract
  EXPECT_EQ(second.get(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(FileDescriptor, ClosesTheOldOneWhenItTakesOverAnother) {
  auto owner = opened();
  const int old = owner.get();
  auto other = opened();
  const int number = other.get();
  owner = std::move(other);
  EXPECT_FALSE(is_open(old));
  EXPECT_EQ(owner.get(), number);
  auto& itself = owner;
  owner = std::move(itself);
  EXPECT_TRUE(is_open(number));
  owner.reset();
  EXPECT_FALSE(is_open(number));
  EXPECT_FALSE(owner.is_open());
}

TEST(FileDescriptor, LeavesWhatWasReleasedToTheCaller) {
  FileDescriptor again;
  {
    auto owner = opened();
    again.reset(owner.release());
    EXPECT_FALSE(owner.is_open());
  }
  EXPECT_TRUE(is_open(again.get()));
}

TEST(Pipe, ClosesOnExecAndCarriesWholeTexts) {
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe) << pipe.error().text();
  EXPECT_EQ(::fcntl(pipe->read.get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(::fcntl(pipe->write.get(), F_GETFD), FD_CLOEXEC);
  const std::string text(40'000, 'x');  // more than one read, less than the pipe holds
  ASSERT_TRUE(write_all(pipe->write.get(), text));
  EXPECT_EQ(read_all(pipe->read.get(), 10, "a pipe").value(), std::string(10, 'x'));
  pipe->write.reset();
  EXPECT_EQ(read_all(pipe->read.get(), 1 << 20, "a pipe").value(), text.substr(10));
}

TEST(DescriptorLimit, IsRaisedToWhatTheSystemLetsUsHave) {
  rlimit before{}, after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  allow_many_descriptors();
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(WriteAll, SaysWhyItCouldNot) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const auto written = write_all(full.get(), "x");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, std::errc::no_space_on_device);
  EXPECT_EQ(read_all(-1, 10, "nothing").error().text(), "reading nothing: Bad file descriptor");
}

}  // namespace
}  // namespace dlaunch
