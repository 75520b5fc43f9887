// The engine below the collectives, over socket pairs.
#include "trainer/comm/io/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "trainer/comm/io/shm_link.h"
#include "trainer/comm/io/tcp_link.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

using testing::HasSubstr;

/// Both ends of what `low` and `high` share.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> shm_links(std::array<int, 2> pair,
                                                                  const std::string& low,
                                                                  const std::string& high) {
  const std::size_t bytes = ShmLink::memory_bytes(kShmRingBytesMin);
  auto memory = SharedMemory::create(bytes);
  EXPECT_TRUE(memory) << memory.error().text();
  ShmLink::prepare(*memory, {});
  auto opened = SharedMemory::open(static_cast<std::uint64_t>(::getpid()),
                                   static_cast<std::uint64_t>(memory->descriptor()), bytes);
  EXPECT_TRUE(opened) << opened.error().text();
  return {std::make_unique<ShmLink>(FileDescriptor(pair[0]), high, std::move(*memory),
                                    kShmRingBytesMin, ShmSide::creator),
          std::make_unique<ShmLink>(FileDescriptor(pair[1]), low, std::move(*opened),
                                    kShmRingBytesMin, ShmSide::opener)};
}

class AnyExchange : public testing::TestWithParam<bool> {};

std::string name_of_links(const testing::TestParamInfo<bool>& info) {
  return info.param ? "shm" : "tcp";
}

INSTANTIATE_TEST_SUITE_P(Kinds, AnyExchange, testing::Bool(), name_of_links);

/// `world_size` exchanges, each connected with each.
std::vector<std::unique_ptr<Exchange>> connected(std::uint32_t world_size, bool shared_memory) {
  std::vector<std::vector<std::unique_ptr<Link>>> links(world_size);
  for (auto& of_rank : links) of_rank.resize(world_size);
  for (std::uint32_t low = 0; low < world_size; ++low) {
    for (std::uint32_t high = low + 1; high < world_size; ++high) {
      std::array<int, 2> pair{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()),
                0);
      const std::string lower = "rank " + std::to_string(low);
      const std::string higher = "rank " + std::to_string(high);
      if (shared_memory) {
        std::tie(links[low][high], links[high][low]) = shm_links(pair, lower, higher);
      } else {
        links[low][high] = std::make_unique<TcpLink>(FileDescriptor(pair[0]), higher);
        links[high][low] = std::make_unique<TcpLink>(FileDescriptor(pair[1]), lower);
      }
    }
  }
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    exchanges.push_back(std::make_unique<Exchange>(Rank{rank}, std::move(links[rank]),
                                                   std::make_shared<AbortFlag>()));
  }
  return exchanges;
}

Stage stage(std::uint64_t sequence) {
  return {Operation::broadcast, sequence, 0, 4, trainer_now() + 30s, true, nullptr};
}

TEST_P(AnyExchange, MovesOnlyWhatIsAskedFor) {
  auto ranks = connected(3, GetParam());
  std::array<std::byte, 4> sent{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::array<std::byte, 4> got{};
  std::thread sender([&] {
    std::vector<Transfer> transfers(3);
    transfers[2].send = sent;
    EXPECT_TRUE(ranks[0]->run(stage(1), transfers));
  });
  std::vector<Transfer> transfers(3);
  transfers[0].receive = got;
  EXPECT_TRUE(ranks[2]->run(stage(1), transfers));
  sender.join();
  EXPECT_EQ(got, sent);
  EXPECT_EQ(ranks[0]->bytes_sent(), kFrameBytes + 4);
  EXPECT_EQ(ranks[1]->bytes_sent(), 0U);
}

TEST_P(AnyExchange, PassesOnWhoIsToBlameWhenARankLeaves) {
  auto ranks = connected(3, GetParam());
  std::array<std::byte, 4> room{};
  std::thread middle([&] {
    std::array<std::byte, 4> own{};
    std::vector<Transfer> transfers(3);
    transfers[2].receive = own;
    const auto done = ranks[1]->run(stage(1), transfers);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().suspect, Rank{2});
    EXPECT_THAT(done.error().error.doing, HasSubstr("rank 2 closed the connection"));
    ranks[1]->leave(done.error());
  });
  ranks[2].reset();
  std::vector<Transfer> transfers(3);
  transfers[1].receive = room;
  const auto done = ranks[0]->run(stage(1), transfers);
  middle.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::peer_lost);
  EXPECT_EQ(done.error().suspect, Rank{2});
  EXPECT_EQ(done.error().error.doing, "rank 1 left broadcast 1 because of rank 2");
}

TEST_P(AnyExchange, DoesNotMindThatARankIsGoneFromWhichNothingIsWanted) {
  auto ranks = connected(3, GetParam());
  ranks[2].reset();
  std::array<std::byte, 4> sent{};
  std::thread sender([&] {
    std::vector<Transfer> transfers(3);
    transfers[1].send = sent;
    EXPECT_TRUE(ranks[0]->run(stage(1), transfers));
  });
  std::array<std::byte, 4> got{};
  std::vector<Transfer> transfers(3);
  transfers[0].receive = got;
  EXPECT_TRUE(ranks[1]->run(stage(1), transfers));
  sender.join();
}

TEST_P(AnyExchange, NoticesTheDeathOfARankThatIsNeededInALaterPhase) {
  auto ranks = connected(3, GetParam());
  std::array<std::byte, 4> room{};
  std::vector<Transfer> transfers(3);
  transfers[1].receive = room;  // rank 1 hangs; rank 2 has done its part and dies
  Stage first = stage(1);
  first.last = false;
  std::thread dying([&] { ranks[2].reset(); });
  const auto done = ranks[0]->run(first, transfers);
  dying.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::peer_lost);
  EXPECT_EQ(done.error().suspect, Rank{2});
}

TEST_P(AnyExchange, HearsTheLastWordsOfARankFromWhichNothingIsWanted) {
  auto ranks = connected(3, GetParam());
  std::array<std::byte, 4> room{};
  std::vector<Transfer> transfers(3);
  transfers[1].receive = room;
  std::thread leaving([&] { ranks[2]->leave({FailureKind::timed_out, {}, Rank{1}}); });
  const auto done = ranks[0]->run(stage(1), transfers);
  leaving.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::timed_out);
  EXPECT_EQ(done.error().suspect, Rank{1});
}

TEST_P(AnyExchange, IsEndedByCloseFromAnotherThread) {
  auto ranks = connected(2, GetParam());
  std::array<std::byte, 4> room{};
  std::vector<Transfer> transfers(2);
  transfers[1].receive = room;
  std::thread closer([&] { ranks[0]->close(); });
  const auto done = ranks[0]->run(stage(1), transfers);
  closer.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::local);
}

TEST(Exchange, RefusesBytesThatAreNoFrame) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
  const FileDescriptor other(pair[1]);
  std::vector<std::unique_ptr<Link>> links(2);
  links[1] = std::make_unique<TcpLink>(FileDescriptor(pair[0]), "rank 1");
  Exchange exchange(Rank{0}, std::move(links), std::make_shared<AbortFlag>());
  const std::string noise(kFrameBytes, 'z');
  ASSERT_EQ(::send(other.get(), noise.data(), noise.size(), 0), static_cast<ssize_t>(kFrameBytes));
  std::array<std::byte, 4> room{};
  std::vector<Transfer> transfers(2);
  transfers[1].receive = room;
  const auto done = exchange.run(stage(1), transfers);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, FailureKind::mismatch);
  EXPECT_EQ(done.error().suspect, Rank{1});
}

}  // namespace
}  // namespace dlaunch::comm
