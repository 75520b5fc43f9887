// One stream over several connections, in whatever order they deliver.
#include "trainer/comm/io/tcp_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <numeric>
#include <vector>

namespace dlaunch::comm {
namespace {

constexpr std::size_t kStripe = 16;

/// The bytes that the connections would carry are handed over by hand: `deliver`.
class Striped {
 public:
  explicit Striped(std::size_t connections, std::size_t dead = 0) {
    std::vector<FileDescriptor> from, to;
    for (std::size_t i = 0; i < connections; ++i) {
      wires_.push_back({pair(from), pair(to)});
    }
    for (std::size_t i = 0; i < dead; ++i) to.emplace_back();
    sender = link(std::move(from));
    receiver = link(std::move(to));
  }

  /// All that connection `number` has, or its end.
  void deliver(std::size_t number) {
    auto& [in, out] = wires_[number];
    std::array<std::byte, 4096> bytes{};
    const auto count = ::recv(in.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      ASSERT_EQ(::send(out.get(), bytes.data(), static_cast<std::size_t>(count), 0), count);
    } else if (count == 0) {
      out.reset();
    }
  }

  std::unique_ptr<TcpLink> sender, receiver;

 private:
  static FileDescriptor pair(std::vector<FileDescriptor>& ends) {
    std::array<int, 2> both{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
    ends.emplace_back(both[0]);
    return FileDescriptor(both[1]);
  }
  static std::unique_ptr<TcpLink> link(std::vector<FileDescriptor> ends) {
    auto first = std::move(ends.front());
    ends.erase(ends.begin());
    return std::make_unique<TcpLink>(std::move(first), "rank 1", std::move(ends), kStripe);
  }
  std::vector<std::pair<FileDescriptor, FileDescriptor>> wires_;
};

std::vector<std::byte> counting(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

void send_all(TcpLink& link, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t half = bytes.size() / 2;
    std::array<iovec, 2> parts = {
        {{const_cast<std::byte*>(bytes.data()), half},
         {const_cast<std::byte*>(bytes.data()) + half, bytes.size() - half}}};
    const auto count = link.send(parts);
    ASSERT_TRUE(count && *count > 0);
    ASSERT_LE(*count, kStripe) << "then another connection has its turn";
    bytes = bytes.subspan(*count);
  }
}

TEST(TcpLink, PutsTheBytesOfItsConnectionsIntoTheirOrder) {
  const auto sent = counting(1000);
  for (const auto& order : {std::array{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    Striped pair(3);
    send_all(*pair.sender, sent);
    std::vector<std::byte> got;
    std::array<std::byte, 37> room{};
    for (const int connection : order) {
      pair.deliver(static_cast<std::size_t>(connection));
      while (true) {
        const iovec part{room.data(), room.size()};
        const auto count = pair.receiver->receive({&part, 1});
        ASSERT_TRUE(count);
        if (*count == 0) break;
        got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(*count));
      }
    }
    EXPECT_EQ(got, sent);
  }
}

TEST(TcpLink, AddsFloatsThatATurnCutsInTwo) {
  std::vector<float> values(100), sums(100, 1.0F);
  std::iota(values.begin(), values.end(), 0.0F);
  Striped pair(3);
  const std::byte odd{};
  send_all(*pair.sender, std::span(&odd, 1));  // so that no float lies within a turn's bounds
  send_all(*pair.sender, std::as_bytes(std::span(values)));
  for (const std::size_t connection : {2U, 1U, 0U}) pair.deliver(connection);
  std::byte first{};
  const iovec part{&first, 1};
  ASSERT_EQ(pair.receiver->receive({&part, 1}), 1U);
  std::span<float> left(sums);
  for (int reads = 0; reads < 1000 && !left.empty(); ++reads) {
    const auto bytes = pair.receiver->receive_adding(left);
    ASSERT_TRUE(bytes);
    left = left.subspan(*bytes / sizeof(float));
  }
  ASSERT_TRUE(left.empty());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_EQ(sums[i], static_cast<float>(i) + 1.0F);
  }
}

TEST(TcpLink, SeesWordsThatATurnCutsInTwoOnceAllOfThemHaveCome) {
  Striped pair(2);
  const auto words = counting(24);
  send_all(*pair.sender, words);
  std::vector<std::byte> seen(24);
  EXPECT_EQ(pair.receiver->peek(seen), 0U);
  pair.deliver(0);
  EXPECT_EQ(pair.receiver->peek(seen), kStripe) << "the second connection is slower";
  pair.deliver(1);
  EXPECT_EQ(pair.receiver->peek(seen), 24U);
  EXPECT_EQ(seen, words);
  EXPECT_EQ(pair.receiver->peek(seen), 24U) << "they stay";
}

TEST(TcpLink, SaysThatThereIsAnEndWhereItsNextBytesWouldCome) {
  Striped pair(2);
  send_all(*pair.sender, counting(kStripe + 4));
  pair.deliver(0);
  pair.deliver(1);
  pair.sender.reset();
  pair.deliver(0);  // its end; the other connection's is still on its way
  std::vector<std::byte> room(kStripe);
  iovec part{room.data(), room.size()};
  ASSERT_EQ(pair.receiver->receive({&part, 1}), kStripe);
  std::vector<pollfd> polls;
  pair.receiver->add_polls({true, false}, polls);
  ASSERT_EQ(polls.size(), 1U);
  ASSERT_EQ(::poll(polls.data(), 1, 0), 1);
  EXPECT_EQ(polls[0].revents, POLLIN) << "what was said before the end comes first";
  ASSERT_EQ(pair.receiver->receive({&part, 1}), 4U);
  EXPECT_EQ(pair.receiver->receive({&part, 1}), 0U);
  pair.deliver(1);
  const auto ended = pair.receiver->receive({&part, 1});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error(), 0);
}

TEST(TcpLink, TakesAConnectionThatHadEndedBeforeForAnEnd) {
  Striped pair(1, 1);  // the receiver's second is closed
  std::vector<pollfd> polls;
  const auto bytes = counting(kStripe);
  const iovec out{const_cast<std::byte*>(bytes.data()), bytes.size()};
  ASSERT_EQ(pair.sender->send({&out, 1}), kStripe);
  pair.deliver(0);
  std::vector<std::byte> room(kStripe);
  const iovec part{room.data(), room.size()};
  ASSERT_EQ(pair.receiver->receive({&part, 1}), kStripe);
  const auto ended = pair.receiver->receive({&part, 1});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error(), 0);
  pair.receiver->add_polls({true, false}, polls);
  EXPECT_GE(polls.front().fd, 0) << "so that the end is seen";
}

}  // namespace
}  // namespace dlaunch::comm
