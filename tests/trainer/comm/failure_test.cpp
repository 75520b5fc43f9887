// Every wait ends, and says because of whom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/trainer/comm/mesh_fixture.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

using testing::HasSubstr;

constexpr milliseconds kShortLimit = 300ms;

class Failures : public testing::TestWithParam<LinkKind> {};

std::string name_of_links(const testing::TestParamInfo<LinkKind>& info) {
  return name_of(info.param);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Failures, testing::ValuesIn(kLinkKinds), name_of_links);

TEST_P(Failures, ThatNoOperationHasMetAreSeenAndThenNamed) {
  TestMesh mesh(2, GetParam());
  mesh.run([](Communicator& comm) {
    if (comm.rank() == Rank{1}) {
      ASSERT_TRUE(comm.barrier());
      return;
    }
    EXPECT_FALSE(comm.somebody_has_left());
    ASSERT_TRUE(comm.barrier());
    const Instant deadline = trainer_now() + kSoon;
    while (!comm.somebody_has_left() && trainer_now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(comm.somebody_has_left());
    const auto met = comm.barrier();
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().suspect, Rank{1});
    EXPECT_FALSE(comm.somebody_has_left());
  });
}

TEST_P(Failures, OfAPeerKilledInTheMiddleOfAnAllReduceNamesIt) {
  // More than the kernel's socket buffers hold, so that both are in the middle for certain.
  constexpr std::size_t kValues = 32 * 1024 * 1024;
  TestMesh mesh(2, GetParam());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto rank = connect_mesh(mesh.listener(1), mesh.settings(1), mesh.abort(1));
    if (!rank) ::_exit(1);
    // Takes part in the first, then never comes to the second.
    std::vector<float> buffer(kValues);
    if (!(*rank)->all_reduce(std::span(buffer).first(10))) ::_exit(2);
    while (true) ::pause();
  }
  auto rank = connect_mesh(mesh.listener(0), mesh.settings(0), mesh.abort(0));
  ASSERT_TRUE(rank) << rank.error().error.text();
  std::vector<float> buffer(kValues);
  ASSERT_TRUE((*rank)->all_reduce(std::span(buffer).first(10)));
  const std::uint64_t before = (*rank)->bytes_sent();
  const auto ticket = (*rank)->start_all_reduce(buffer);
  ASSERT_TRUE(ticket);
  while ((*rank)->bytes_sent() == before) std::this_thread::yield();
  EXPECT_TRUE((*rank)->collective_state().entered);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  const auto done = (*rank)->wait(*ticket);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::peer_lost);
  EXPECT_EQ(done.error().suspect, Rank{1});
  EXPECT_THAT(done.error().error.doing, HasSubstr("rank 1 at 127.0.0."));
  EXPECT_THAT(done.error().error.doing, HasSubstr("closed the connection during all-reduce 2"));
}

TEST_P(Failures, KillTheCommunicatorForGood) {
  TestMesh mesh(2, GetParam());
  mesh.run([](Communicator& rank) {
    if (rank.rank() == Rank{1}) return;
    const auto first = rank.barrier();
    ASSERT_FALSE(first);
    std::vector<float> buffer(10);
    const auto second = rank.start_all_reduce(buffer);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().error.text(), first.error().error.text());
    EXPECT_FALSE(rank.all_reduce_scalars({}));
    ASSERT_TRUE(rank.failure());
    EXPECT_EQ(rank.failure()->suspect, Rank{1});
  });
}

TEST_P(Failures, ReachOperationsThatWaitInTheQueue) {
  TestMesh mesh(2, GetParam());
  mesh.run([](Communicator& rank) {
    if (rank.rank() == Rank{1}) return;
    std::vector<std::vector<float>> buffers(10, std::vector<float>(100));
    std::vector<Ticket> tickets;
    for (auto& buffer : buffers) {
      const auto ticket = rank.start_all_reduce(buffer);
      if (!ticket) break;  // the first has failed already
      tickets.push_back(*ticket);
    }
    for (const Ticket ticket : tickets) EXPECT_FALSE(rank.wait(ticket));
  });
}

TEST_P(Failures, WakeEveryWaiterAtTheAbort) {
  TestMesh mesh(4, GetParam());
  std::atomic<int> waiting{0};
  mesh.run([&](Communicator& rank) {
    if (rank.rank() == Rank{3}) {
      // The one that does not come stands for a rank that hangs.
      while (waiting < 3) std::this_thread::yield();
      for (std::uint32_t other = 0; other < 3; ++other) mesh.abort(other)->set("worker 3 hangs");
      // It may still find the others' part of the barrier, but no further operation.
      static_cast<void>(rank.barrier());
      EXPECT_FALSE(rank.barrier());
      return;
    }
    ++waiting;
    const auto met = rank.barrier();
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().kind, FailureKind::aborted);
    EXPECT_FALSE(met.error().suspect);
    EXPECT_FALSE(rank.barrier());
  });
}

TEST(Abort, StopsAWorldOfOneAsWell) {
  TestMesh mesh(1);
  mesh.abort(0)->set("the operator asked for it");
  mesh.run([](Communicator& rank) {
    std::vector<float> buffer(1);
    const auto done = rank.all_reduce(buffer);
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().error.doing, HasSubstr("the operator asked for it"));
  });
}

TEST(Abort, KeepsItsFirstReason) {
  AbortFlag flag;
  EXPECT_FALSE(flag.is_set());
  flag.set("first");
  flag.set("second");
  EXPECT_TRUE(flag.is_set());
  EXPECT_EQ(flag.reason(), "first");
}

TEST_P(Failures, NameTheRankThatDidNotCome) {
  TestMesh mesh(3, GetParam());
  std::atomic<int> gave_up{0};
  const auto settings = [&](std::uint32_t rank) {
    MeshSettings changed = mesh.settings(rank);
    if (rank == 0) changed.operation_limit = kShortLimit;
    return changed;
  };
  mesh.run(settings, [&](Communicator& rank) {
    if (rank.rank() == Rank{2}) {
      while (gave_up < 2) std::this_thread::yield();
      return;
    }
    std::vector<float> buffer(100);
    const auto done = rank.all_reduce(buffer);
    ++gave_up;
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, FailureKind::timed_out) << done.error().error.text();
    EXPECT_EQ(done.error().suspect, Rank{2}) << "rank 1 hears it from rank 0";
    EXPECT_THAT(done.error().error.doing, HasSubstr("rank 2 at"));
  });
}

TEST_P(Failures, FindRanksInDifferentOperations) {
  TestMesh mesh(2, GetParam());
  mesh.run([](Communicator& rank) {
    std::vector<float> buffer(100);
    const bool first = rank.rank() == Rank{0};
    const auto done = first ? rank.all_reduce(buffer) : rank.barrier();
    ASSERT_FALSE(done);
    // The slower one may find the other's last words only.
    EXPECT_TRUE(done.error().kind == FailureKind::mismatch) << done.error().error.text();
  });
}

TEST_P(Failures, FindBuffersThatDifferInSize) {
  TestMesh mesh(2, GetParam());
  mesh.run([](Communicator& rank) {
    std::vector<float> buffer(100 + rank.rank().value);
    const auto done = rank.all_reduce(buffer);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, FailureKind::mismatch) << done.error().error.text();
  });
}

TEST_P(Failures, AreOverOnceTheRanksThatAreLeftRegroupOnTheSameListeners) {
  TestMesh first(3, GetParam());
  first.run([&](Communicator& rank) {
    // All are connected before the first goes; a slow one may already hear of that.
    static_cast<void>(rank.barrier());
    if (rank.rank() == Rank{2}) return;
    EXPECT_FALSE(rank.barrier());
  });
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      MeshSettings settings = first.settings(rank);
      settings.world_size = 2;
      settings.endpoints.pop_back();
      settings.generation = Generation{8};
      settings.token = test_token("the token of the next generation");
      auto mesh = connect_mesh(first.listener(rank), settings, std::make_shared<AbortFlag>());
      ASSERT_TRUE(mesh) << mesh.error().error.text();
      std::vector<float> buffer{1.0F};
      ASSERT_TRUE((*mesh)->all_reduce(buffer));
      EXPECT_EQ(buffer[0], 2.0F);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dlaunch::comm
