// Several ranks on the stand-in, one thread each: who gets what, and how the others learn of one
// that is lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/trainer/comm/mesh_fixture.h"
#include "tests/trainer/gpu/stand_in_nccl.h"
#include "trainer/comm/nccl/io/device_memory.h"
#include "trainer/comm/nccl/io/nccl_communicator.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::size_t kCount = 12;

/// What the memory of the stand-in is.
std::span<float> floats_of(DeviceSpan span) { return {static_cast<float*>(span.data), span.count}; }

struct Member {
  std::shared_ptr<DeviceSession> session;
  std::unique_ptr<DeviceCommunicator> group;
  DeviceMemory memory;
};

Member join(Communicator& mesh, std::shared_ptr<AbortFlag> abort,
            const DeviceSettings& settings = {}) {
  auto session = DeviceSession::open(mesh, settings, std::move(abort)).value();
  auto group = NcclCommunicator::connect(session, mesh, "main").value();
  auto memory = DeviceMemory::allocate(kCount, DeviceType::fp32).value();
  std::ranges::fill(floats_of(memory.span()), static_cast<float>(mesh.rank().value + 1));
  return {std::move(session), std::move(group), std::move(memory)};
}

CommResult<void> all_reduce(Member& member) {
  return member.group->start_all_reduce(member.memory.span()).and_then([&](Ticket ticket) {
    return member.group->wait(ticket);
  });
}

TEST(DeviceRanks, ReceiveTheSumOfAll) {
  TestMesh mesh(kRanks);
  mesh.run([&](Communicator& comm) {
    Member member = join(comm, mesh.abort(comm.rank().value));
    ASSERT_TRUE(all_reduce(member));
    EXPECT_EQ(floats_of(member.memory.span())[kCount - 1], 6.0F);
    ASSERT_TRUE(comm.barrier());
  });
}

TEST(DeviceRanks, ScatterSumsAndGatherThemAgain) {
  TestMesh mesh(kRanks);
  mesh.run([&](Communicator& comm) {
    Member member = join(comm, mesh.abort(comm.rank().value));
    const DeviceSpan all = member.memory.span();
    const DeviceSpan own = all.part(comm.rank().value * kCount / kRanks, kCount / kRanks);
    ASSERT_TRUE(member.group->start_reduce_scatter(all, own));
    const auto ticket = member.group->start_all_gather(own, all);
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(member.group->wait(*ticket));
    for (const float value : floats_of(all)) EXPECT_EQ(value, 6.0F);
    ASSERT_TRUE(comm.barrier());
  });
}

TEST(DeviceRanks, OfAPartSumAmongThemselves) {
  TestMesh mesh(kRanks);
  mesh.run([&](Communicator& comm) {
    Member member = join(comm, mesh.abort(comm.rank().value));
    const auto part = comm.split("pair", [](Rank rank) { return rank.value / 2; });
    const auto group = NcclCommunicator::connect(member.session, *part, "pair").value();
    const auto ticket = group->start_all_reduce(member.memory.span());
    ASSERT_TRUE(ticket);
    ASSERT_TRUE(group->wait(*ticket));
    EXPECT_EQ(floats_of(member.memory.span())[0], 3.0F);
    ASSERT_TRUE(comm.barrier());
  });
}

TEST(DeviceRanks, EndTheirWaitWhenOneIsLostAndNameIt) {
  TestMesh mesh(kRanks);
  mesh.run([&](Communicator& comm) {
    Member member = join(comm, mesh.abort(comm.rank().value));
    if (comm.rank() == Rank{2}) return;
    const auto outcome = all_reduce(member);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, FailureKind::peer_lost) << outcome.error().error.text();
    EXPECT_EQ(outcome.error().suspect, Rank{2}) << outcome.error().error.text();
    EXPECT_FALSE(member.session->is_stuck());
  });
  EXPECT_EQ(aborts_one_by_one(), 0);
}

TEST(DeviceRanks, LearnAtOnceWhoHasNoDevice) {
  TestMesh mesh(kRanks);
  mesh.run([&](Communicator& comm) {
    DeviceSettings settings;
    if (comm.rank() == Rank{1}) settings.device = 5;
    const auto session = DeviceSession::open(comm, settings, mesh.abort(comm.rank().value));
    ASSERT_FALSE(session);
    const std::string text = session.error().error.text();
    if (comm.rank() == Rank{1}) {
      EXPECT_EQ(session.error().kind, FailureKind::local) << text;
      EXPECT_NE(text.find("fewer devices than ranks"), std::string::npos) << text;
    } else {
      EXPECT_EQ(session.error().suspect, Rank{1}) << text;
    }
  });
}

TEST(DeviceRanks, EndAtTheAbortOfEach) {
  TestMesh mesh(2);
  std::atomic<bool> has_joined{false};
  mesh.run([&](Communicator& comm) {
    Member member = join(comm, mesh.abort(comm.rank().value));
    if (comm.rank() == Rank{0}) has_joined = true;
    if (comm.rank() == Rank{1}) {
      const Instant deadline = trainer_now() + kSoon;
      while (!has_joined && trainer_now() < deadline) std::this_thread::yield();
      for (std::uint32_t rank = 0; rank < 2; ++rank) mesh.abort(rank)->set("the test says so");
      return;
    }
    const auto outcome = all_reduce(member);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, FailureKind::aborted);
    EXPECT_NE(outcome.error().error.text().find("the test says so"), std::string::npos);
  });
}

}  // namespace
}  // namespace dlaunch::comm
