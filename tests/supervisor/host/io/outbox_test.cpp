#include "supervisor/host/io/outbox.h"

#include <gtest/gtest.h>

#include "protocol/framing.h"
#include "protocol/limits.h"

namespace dlaunch::supervisor::host {
namespace {

using protocol::AgentFrame;

std::vector<AgentFrame> taken(Outbox& outbox, std::uint64_t acknowledged = 0) {
  std::vector<AgentFrame> frames;
  protocol::FrameReader reader(protocol::kFrameBytesMax);
  while (!outbox.empty()) reader.feed(outbox.take(acknowledged));
  for (auto message = reader.next(); message && *message; message = reader.next()) {
    frames.emplace_back().ParseFromString(**message);
  }
  return frames;
}

AgentFrame log_of(std::size_t bytes) {
  AgentFrame frame;
  frame.mutable_log_lines()->set_text(std::string(bytes, 'x'));
  return frame;
}

TEST(Outbox, SendsTheUrgentFirstAndLogsLast) {
  Outbox outbox;
  ASSERT_TRUE(outbox.push(log_of(10)));
  AgentFrame frame;
  frame.mutable_evidence();
  ASSERT_TRUE(outbox.push(frame));
  frame.mutable_heartbeat();
  ASSERT_TRUE(outbox.push(frame));
  frame.mutable_connected();
  ASSERT_TRUE(outbox.push(frame));
  frame.mutable_abort_acknowledged();
  ASSERT_TRUE(outbox.push(frame));
  const auto frames = taken(outbox, 7);
  ASSERT_EQ(frames.size(), 5U);
  const std::vector<AgentFrame::BodyCase> expected = {
      AgentFrame::kAbortAcknowledged, AgentFrame::kConnected, AgentFrame::kHeartbeat,
      AgentFrame::kEvidence, AgentFrame::kLogLines};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(frames[i].body_case(), expected[i]);
    EXPECT_EQ(frames[i].number(), i + 1);
    EXPECT_EQ(frames[i].acknowledged(), 7U);
  }
}

TEST(Outbox, AHelloOpensAConnectionWhateverWaits) {
  Outbox outbox;
  AgentFrame frame;
  frame.mutable_hello();
  ASSERT_TRUE(outbox.push(frame));
  frame.mutable_abort_acknowledged();
  ASSERT_TRUE(outbox.push(frame));
  const auto frames = taken(outbox);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_TRUE(frames[0].has_hello());
}

TEST(Outbox, ANewHeartbeatReplacesTheOneThatWaits) {
  Outbox outbox;
  for (std::uint64_t dropped = 1; dropped <= 3; ++dropped) {
    AgentFrame frame;
    frame.mutable_heartbeat()->set_log_lines_dropped(dropped);
    ASSERT_TRUE(outbox.push(frame));
  }
  const auto frames = taken(outbox);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].heartbeat().log_lines_dropped(), 3U);
}

TEST(Outbox, LogsBeyondTheBoundAreDroppedAndCounted) {
  Outbox outbox;
  const std::size_t half = protocol::kLogQueueBytesMax / 2;
  ASSERT_TRUE(outbox.push(log_of(half)));
  ASSERT_TRUE(outbox.push(log_of(half)));
  ASSERT_TRUE(outbox.push(log_of(half)));
  ASSERT_TRUE(outbox.push(log_of(half)));
  EXPECT_EQ(taken(outbox).size(), 2U);
  ASSERT_TRUE(outbox.push(log_of(1)));
  const auto frames = taken(outbox);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].log_lines().dropped(), 2U);
}

TEST(Outbox, NoTextMakesAFrameUnreadable) {
  AgentFrame exited;
  exited.mutable_evidence()->mutable_worker_exited()->add_last_lines("good");
  exited.mutable_evidence()->mutable_worker_exited()->add_last_lines("gr\xFC\xDF");
  exited.mutable_evidence()->mutable_worker_exited()->set_error_message("half \xE2\x96");
  AgentFrame ready;
  ready.mutable_ready()->add_failures()->set_sentence(
      "/data/B\xFC"
      "cher is not there");
  Outbox outbox;
  ASSERT_TRUE(outbox.push(exited));
  ASSERT_TRUE(outbox.push(ready));
  protocol::FrameReader reader(protocol::kFrameBytesMax);
  reader.feed(outbox.take(0));
  AgentFrame first, second;
  ASSERT_TRUE(first.ParseFromString(**reader.next()));
  ASSERT_TRUE(second.ParseFromString(**reader.next()));
  EXPECT_EQ(first.ready().failures(0).sentence(), "/data/B\uFFFDcher is not there");
  EXPECT_EQ(second.evidence().worker_exited().last_lines(0), "good");
  EXPECT_EQ(second.evidence().worker_exited().last_lines(1), "gr\uFFFD\uFFFD");
  EXPECT_EQ(second.evidence().worker_exited().error_message(), "half \uFFFD");
}

TEST(Outbox, IsFullWhenTheControllerDoesNotReadAndAnotherConnectionBeginsEmpty) {
  Outbox outbox;
  AgentFrame failing;
  failing.mutable_evidence()->mutable_worker_failing()->set_reason(std::string(4096, 'r'));
  AgentFrame parked;
  parked.mutable_parked();
  std::size_t pushed = 0;
  while (outbox.push(pushed % 2 == 0 ? failing : parked)) ASSERT_LT(++pushed, 1'000'000U);
  EXPECT_GT(pushed * 4096 / 2, protocol::kSendQueueBytesMax * 9 / 10);
  AgentFrame beat;
  beat.mutable_heartbeat()->add_workers();
  for (int i = 0; i < 10; ++i) (void)outbox.push(beat);
  outbox.clear();
  EXPECT_TRUE(outbox.push(failing));
  EXPECT_EQ(taken(outbox).size(), 1U);
}

TEST(Outbox, WhatWasTakenMakesRoom) {
  Outbox outbox;
  AgentFrame failing;
  failing.mutable_evidence()->mutable_worker_failing()->set_reason(std::string(64 * 1024, 'r'));
  AgentFrame beat;
  beat.mutable_heartbeat()->add_workers()->set_phase(std::string(64 * 1024, 'p'));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(outbox.push(failing));
    ASSERT_TRUE(outbox.push(beat));
    ASSERT_TRUE(outbox.push(beat));
    EXPECT_EQ(taken(outbox).size(), 2U);
  }
}

TEST(Outbox, CountsAnewOnEachConnection) {
  Outbox outbox;
  ASSERT_TRUE(outbox.push(log_of(1)));
  EXPECT_EQ(taken(outbox).at(0).number(), 1U);
  ASSERT_TRUE(outbox.push(log_of(1)));
  outbox.clear();
  EXPECT_TRUE(outbox.empty());
  ASSERT_TRUE(outbox.push(log_of(1)));
  EXPECT_EQ(taken(outbox).at(0).number(), 1U);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
