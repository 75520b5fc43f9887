// Which links lead through shared memory, and what happens where none can be had.
#include "trainer/comm/io/memory_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tests/trainer/comm/mesh_fixture.h"
#include "trainer/comm/io/shared_memory.h"
#include "trainer/comm/io/shm_link.h"

namespace dlaunch::comm {
namespace {

using testing::HasSubstr;

constexpr std::size_t kBytes = 1 << 16;

Result<SharedMemory> opened(int descriptor, std::size_t bytes = kBytes) {
  return SharedMemory::open(static_cast<std::uint64_t>(::getpid()),
                            static_cast<std::uint64_t>(descriptor), bytes);
}

std::size_t open_memory_descriptors() {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find("dlaunch-link") != std::string::npos) ++found;
  }
  return found;
}

void expect_sum_of_two(Communicator& rank) {
  std::vector<float> values(100'000, 1.0F);
  const auto done = rank.all_reduce(values);
  ASSERT_TRUE(done) << done.error().error.text();
  EXPECT_EQ(values, std::vector<float>(100'000, 2.0F));
}

TEST(MemorySharing, IsUsedBetweenTheRanksOfAHostAndLeavesNoDescriptor) {
  TestMesh mesh(4, LinkKind::mixed);
  mesh.run([](Communicator& rank) {
    EXPECT_EQ(rank.links_sentence(), "3 other ranks, 1 of them through shared memory");
    ASSERT_TRUE(rank.barrier());
    EXPECT_EQ(open_memory_descriptors(), 0U);
    ASSERT_TRUE(rank.barrier());
  });
}

TEST(MemorySharing, IsLeftOutWithARankThatDoesNotWantIt) {
  TestMesh mesh(2);
  const auto settings = [&](std::uint32_t rank) {
    MeshSettings changed = mesh.settings(rank);
    changed.share_memory = rank == 0;
    return changed;
  };
  mesh.run(settings, [](Communicator& rank) {
    EXPECT_THAT(rank.links_sentence(), HasSubstr("0 of them through shared memory; no memory is "
                                                 "shared with rank "));
    EXPECT_THAT(rank.links_sentence(),
                HasSubstr(rank.rank() == Rank{0} ? "it could not open it" : "it is turned off"));
    expect_sum_of_two(rank);
  });
}

TEST(MemorySharing, FallsBackToTheNetworkWhereTheSystemGivesNoMemory) {
  TestMesh mesh(2);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(1);
    auto rank = connect_mesh(mesh.listener(0), mesh.settings(0), mesh.abort(0));
    if (!rank) ::_exit(2);
    const auto sentence = (*rank)->links_sentence();
    if (sentence.find("bytes of shared memory: File too large") == std::string::npos) ::_exit(3);
    std::vector<float> values(100'000, 1.0F);
    ::_exit((*rank)->all_reduce(values) && values[7] == 2.0F ? 0 : 4);
  }
  auto rank = connect_mesh(mesh.listener(1), mesh.settings(1), mesh.abort(1));
  ASSERT_TRUE(rank) << rank.error().error.text();
  EXPECT_THAT((*rank)->links_sentence(), HasSubstr("it offers none"));
  expect_sum_of_two(**rank);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool can_make_pid_namespaces() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::unshare(CLONE_NEWPID) == 0 ? 0 : 1);
  int status = 1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(MemorySharing, FallsBackToTheNetworkBetweenContainers) {
  if (!can_make_pid_namespaces()) GTEST_SKIP() << "no namespace for process numbers here";
  TestMesh mesh(2);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Its number is another process's on this side, as in a container.
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(2);
    const pid_t inside = ::fork();
    if (inside == 0) {
      auto rank = connect_mesh(mesh.listener(0), mesh.settings(0), mesh.abort(0));
      std::vector<float> values(100'000, 1.0F);
      ::_exit(rank && (*rank)->all_reduce(values) && values[7] == 2.0F ? 0 : 1);
    }
    int status = 1;
    ::waitpid(inside, &status, 0);
    ::_exit(WEXITSTATUS(status));
  }
  auto rank = connect_mesh(mesh.listener(1), mesh.settings(1), mesh.abort(1));
  ASSERT_TRUE(rank) << rank.error().error.text();
  EXPECT_THAT((*rank)->links_sentence(),
              HasSubstr("cannot be seen from here (another container?)"));
  expect_sum_of_two(**rank);
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MemorySharing, TakesLessPerLinkWhereManyRanksShareAHost) {
  EXPECT_EQ(shm_ring_bytes(1), kShmRingBytesMax);
  EXPECT_EQ(shm_ring_bytes(7), kShmRingBytesMax);
  EXPECT_EQ(shm_ring_bytes(15), kShmRingBytesMax / 2);
  EXPECT_LE(2 * 63 * shm_ring_bytes(63), kShmBytesPerRank);
  EXPECT_EQ(shm_ring_bytes(4000), kShmRingBytesMin);
}

TEST(SharedMemory, IsSeenByWhoeverOpensIt) {
  auto made = SharedMemory::create(kBytes);
  ASSERT_TRUE(made) << made.error().text();
  auto other = opened(made->descriptor());
  ASSERT_TRUE(other) << other.error().text();
  made->bytes()[kBytes - 1] = std::byte{7};
  EXPECT_EQ(other->bytes()[kBytes - 1], std::byte{7});
  EXPECT_NE(made->bytes().data(), other->bytes().data());
}

TEST(SharedMemory, IsNotWhatHasAnotherSizeOrCouldShrink) {
  auto made = SharedMemory::create(kBytes);
  ASSERT_TRUE(made);
  EXPECT_FALSE(opened(made->descriptor(), kBytes / 2));
  EXPECT_NE(::ftruncate(made->descriptor(), 0), 0) << "nobody can take it away from under a reader";
  const FileDescriptor loose(
      ::memfd_create("dlaunch-link-of-somebody", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), kBytes), 0);
  const auto refused = opened(loose.get());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("which is something else"));
  const FileDescriptor other_name(::memfd_create("loose", MFD_CLOEXEC));
  EXPECT_FALSE(opened(other_name.get()));
  EXPECT_FALSE(opened(-1));
  EXPECT_FALSE(opened(0, kBytes)) << "standard input is no memory";
}

TEST(ShmRing, IsBrokenWhenItsPositionsCannotBe) {
  ShmRingHead head{};
  std::vector<std::byte> bytes(64);
  ShmRing ring(head, bytes);
  EXPECT_FALSE(ring.is_broken());
  head.written = 65;
  EXPECT_TRUE(ring.is_broken());
  EXPECT_LE(ring.readable(), 64U) << "and nothing beyond it is touched";
  head.written = 0;
  head.read = 1;
  EXPECT_TRUE(ring.is_broken());
}

}  // namespace
}  // namespace dlaunch::comm
