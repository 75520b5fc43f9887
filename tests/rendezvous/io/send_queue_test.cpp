// The order of what waits for an agent, its bound, and what acknowledgements say.
#include "rendezvous/io/send_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "protocol/framing.h"
#include "protocol/limits.h"

namespace dlaunch::rendezvous {
namespace {

using protocol::ControllerFrame;

constexpr Instant kStart{};

ControllerFrame with_job() {
  ControllerFrame frame;
  frame.set_job("j");
  return frame;
}
ControllerFrame beat() {
  auto frame = with_job();
  frame.mutable_beat();
  return frame;
}
ControllerFrame abort_of(const std::string& reason) {
  auto frame = with_job();
  frame.mutable_abort()->set_reason(reason);
  return frame;
}
ControllerFrame assign(std::size_t token_bytes) {
  auto frame = with_job();
  frame.mutable_assign()->set_token(std::string(token_bytes, 't'));
  return frame;
}
ControllerFrame welcome() {
  auto frame = with_job();
  frame.mutable_welcome();
  return frame;
}

std::vector<ControllerFrame> decode(const std::string& bytes) {
  protocol::FrameReader reader(protocol::kFrameBytesMax);
  reader.feed(bytes);
  std::vector<ControllerFrame> frames;
  while (true) {
    const auto message = reader.next();
    EXPECT_TRUE(message) << message.error().text();
    if (!message || !*message) return frames;
    frames.emplace_back();
    EXPECT_TRUE(frames.back().ParseFromString(**message));
  }
}

std::string take(SendQueue& queue, Instant now, std::uint64_t acknowledged, std::size_t bytes_max) {
  Outgoing out;
  queue.take(out, now, acknowledged, bytes_max);
  return out.bytes + (out.large ? out.large->body : "") + out.end;
}

TEST(SendQueue, SendsWelcomeThenAbortThenOrdersThenBeats) {
  SendQueue queue;
  for (const auto& frame : {beat(), assign(5), abort_of("a worker died"), welcome()}) {
    ASSERT_TRUE(queue.push(make_outgoing(frame)));
  }
  const auto frames = decode(take(queue, kStart, 42, 1 << 20));
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_TRUE(frames[0].has_welcome());
  EXPECT_TRUE(frames[1].has_abort());
  EXPECT_TRUE(frames[2].has_assign());
  EXPECT_TRUE(frames[3].has_beat());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].number(), i + 1);
    EXPECT_EQ(frames[i].acknowledged(), 42U);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, KeepsOnlyOneBeatOfSeveralThatWait) {
  SendQueue queue;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(queue.push(make_outgoing(beat())));
  EXPECT_EQ(decode(take(queue, kStart, 0, 1 << 20)).size(), 1U);
}

TEST(SendQueue, TakesAtLeastOneFrameAndNotMoreThanAsked) {
  SendQueue queue;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.push(make_outgoing(assign(1000))));
  EXPECT_EQ(decode(take(queue, kStart, 0, 10)).size(), 1U);
  EXPECT_EQ(decode(take(queue, kStart, 0, 10'000)).size(), 2U);
}

TEST(SendQueue, RefusesWhatIsBeyondItsBound) {
  SendQueue queue;
  const auto large = make_outgoing(assign(3 * 1024 * 1024));
  EXPECT_TRUE(queue.push(large));
  EXPECT_TRUE(queue.push(large));
  EXPECT_FALSE(queue.push(large));
  (void)take(queue, kStart, 0, 1);
  EXPECT_TRUE(queue.push(large));
}

TEST(SendQueue, SharesTheBodyOfALargeFrameBetweenItsReceivers) {
  std::array<SendQueue, 2> queues;
  const auto large = make_outgoing(assign(40'000));
  for (auto& queue : queues) {
    ASSERT_TRUE(queue.push(make_outgoing(abort_of("a worker died"))));
    ASSERT_TRUE(queue.push(large));
    ASSERT_TRUE(queue.push(make_outgoing(beat())));
    EXPECT_TRUE(decode(take(queue, kStart, 0, 1 << 20)).at(0).has_abort());
    Outgoing out;
    queue.take(out, kStart, 7, 1 << 20);
    EXPECT_EQ(out.large, large);
    EXPECT_LT(out.bytes.size() + out.end.size(), 64U);
    const auto frames = decode(out.bytes + out.large->body + out.end);
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].assign().token().size(), 40'000U);
    EXPECT_EQ(frames[0].number(), 2U);
    EXPECT_EQ(frames[0].acknowledged(), 7U);
    EXPECT_TRUE(decode(take(queue, kStart, 0, 1 << 20)).at(0).has_beat());
    EXPECT_TRUE(queue.empty());
  }
}

TEST(SendQueue, SaysWhenTheAcknowledgedFrameWasSent) {
  SendQueue queue;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(queue.push(make_outgoing(beat())));
    (void)take(queue, kStart + i * 1s, 0, 1 << 20);
  }
  EXPECT_EQ(*queue.on_acknowledged(0), std::nullopt);
  EXPECT_EQ(*queue.on_acknowledged(2), kStart + 1s);
  EXPECT_EQ(*queue.on_acknowledged(2), kStart + 1s) << "said again: still that frame";
  EXPECT_EQ(*queue.on_acknowledged(1), kStart + 1s) << "an older one changes nothing";
  EXPECT_EQ(*queue.on_acknowledged(3), kStart + 2s);
  EXPECT_FALSE(queue.on_acknowledged(4)) << "never sent";
}

TEST(SendQueue, ForgetsWhatASilentPeerNeverAcknowledged) {
  SendQueue queue;
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(queue.push(make_outgoing(beat())));
    (void)take(queue, kStart + i * 1ms, 0, 1 << 20);
  }
  EXPECT_EQ(*queue.on_acknowledged(10), std::nullopt);
  EXPECT_EQ(*queue.on_acknowledged(5000), kStart + 4999ms);
}

}  // namespace
}  // namespace dlaunch::rendezvous
