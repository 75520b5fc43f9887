// The worker socket's lines: what is written is read back, and what is wrong is refused.
#include "protocol/worker_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "protocol/limits.h"

namespace dlaunch::protocol {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string line_of(const WorkerMessage& message) { return format_line(message).value(); }
std::string line_of(const AgentMessage& message) { return format_line(message).value(); }

template <class Body>
Body round_trip(Body body) {
  auto line = line_of(WorkerMessage{Generation{7}, std::move(body)});
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  const auto message = parse_worker_line(line);
  EXPECT_TRUE(message.has_value() && message->has_value()) << line;
  EXPECT_EQ(message.value()->generation, Generation{7});
  return std::get<Body>(message.value()->body);
}

worker::Assign some_assignment() {
  worker::Assign assign;
  assign.job = "job-1";
  assign.group = "main";
  assign.incarnation = Incarnation{2};
  assign.rank = Rank{1};
  assign.world_size = 2;
  assign.local_rank = 1;
  assign.token = "00ff";
  assign.endpoints = {{Rank{0}, "10.0.0.1", 4000}, {Rank{1}, "fd00::1", 65535}};
  assign.restore = worker::Restore{Step{800}, "/c/step-800"};
  assign.checkpoint_directory = "/c";
  assign.trainer = R"({"steps":20})";
  return assign;
}

std::string why_refused(std::string_view line) {
  const auto message = parse_worker_line(line);
  return message ? "not refused" : message.error().text();
}

TEST(WorkerMessage, EveryMessageOfAWorkerIsReadBackAsItWasWritten) {
  const auto hello = round_trip(worker::Hello{1, Rank{3}, 1, 4242});
  EXPECT_EQ(hello.rank, Rank{3});
  EXPECT_EQ(hello.local_rank, 1u);
  EXPECT_EQ(hello.pid, 4242u);
  const auto ready = round_trip(worker::Ready{"10.0.0.3", 65535});
  EXPECT_EQ(ready.address, "10.0.0.3");
  EXPECT_EQ(ready.port, 65535);
  EXPECT_EQ(round_trip(worker::Parked{}).live_step, std::nullopt);
  const auto parked = round_trip(worker::Parked{Step{12}, true});
  EXPECT_EQ(parked.live_step, Step{12});
  EXPECT_TRUE(parked.live_clean);
  round_trip(worker::Connected{});
  EXPECT_EQ(round_trip(worker::Restored{Step{9}}).step, Step{9});
  EXPECT_EQ(round_trip(worker::Restored{Step{9}}).differs, "");
  EXPECT_EQ(round_trip(worker::Restored{Step{9}, "AVX2"}).differs, "AVX2");
  const auto written =
      round_trip(worker::Written{Step{20}, "shard-0-of-2.safetensors", 1ull << 40, "ab12", 0.5});
  EXPECT_EQ(written.bytes, 1ull << 40);
  EXPECT_EQ(written.hash, "ab12");
  const auto failing =
      round_trip(worker::Failing{worker::FailingCategory::peer_lost, "rank 3 is gone", Rank{3}});
  EXPECT_EQ(failing.category, worker::FailingCategory::peer_lost);
  EXPECT_EQ(failing.suspect_rank, Rank{3});
  EXPECT_EQ(round_trip(worker::Finished{Step{2000}}).step, Step{2000});
}

TEST(WorkerMessage, ProgressKeepsItsNumbersAndALossThatIsNoNumberBecomesNull) {
  worker::Progress progress{Step{5}, "forward", 0.25, 0.05, 3.5, 4096, 17, true, {}};
  progress.figures = {1.5, 2.5, 4, 0.1, 0.2, 0.03, 640, 1 << 20, 1 << 21, 1e9, 5e10, 1e11};
  const auto read = round_trip(progress);
  EXPECT_EQ(read.phase, "forward");
  EXPECT_EQ(read.seconds, 0.25);
  EXPECT_EQ(read.loss, 3.5);
  EXPECT_EQ(read.tokens, 4096u);
  EXPECT_TRUE(read.entered);
  EXPECT_EQ(read.figures.gradient_norm, 1.5);
  EXPECT_EQ(read.figures.validation_loss, 2.5);
  EXPECT_EQ(read.figures.validation_step, 4u);
  EXPECT_EQ(read.figures.seconds_p95, 0.2);
  EXPECT_EQ(read.figures.bytes_sent, 640u);
  EXPECT_EQ(read.figures.memory_peak_bytes, 1u << 21);
  EXPECT_EQ(read.figures.gemm_flops_per_second, 5e10);
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(round_trip(progress).loss, std::nullopt);
}

TEST(WorkerMessage, EveryMessageOfAnAgentIsReadBackAsItWasWritten) {
  auto line = line_of(AgentMessage{Generation{3}, some_assignment()});
  line.pop_back();
  const auto message = parse_agent_line(line).value().value();
  const auto& assign = std::get<worker::Assign>(message.body);
  EXPECT_EQ(assign.incarnation, Incarnation{2});
  EXPECT_EQ(assign.endpoints.at(1).address, "fd00::1");
  EXPECT_EQ(assign.endpoints.at(1).port, 65535);
  EXPECT_EQ(assign.restore->step, Step{800});
  EXPECT_EQ(json::parse(assign.trainer)["steps"], 20);
  const auto body_of = [](AgentMessage::Body body) {
    const auto text = line_of(AgentMessage{Generation{3}, std::move(body)});
    return parse_agent_line(text.substr(0, text.size() - 1)).value().value().body;
  };
  EXPECT_TRUE(std::holds_alternative<worker::Go>(body_of(worker::Go{})));
  EXPECT_EQ(std::get<worker::Abort>(body_of(worker::Abort{"host lost"})).reason, "host lost");
  EXPECT_TRUE(std::holds_alternative<worker::CheckpointAt>(body_of(worker::CheckpointAt{})));
  EXPECT_FALSE(std::get<worker::Stop>(body_of(worker::Stop{false})).checkpoint);
  EXPECT_EQ(std::get<worker::Committed>(body_of(worker::Committed{Step{4}})).step, Step{4});
}

TEST(WorkerMessage, TheKeysAreThoseOfTheDocumentation) {
  const auto progress = json::parse(line_of(WorkerMessage{Generation{1}, worker::Progress{}}));
  for (const char* key : {"type",
                          "generation",
                          "step",
                          "phase",
                          "seconds",
                          "waiting",
                          "loss",
                          "tokens",
                          "sequence",
                          "entered",
                          "gradient_norm",
                          "validation_loss",
                          "validation_step",
                          "seconds_p50",
                          "seconds_p95",
                          "collective_seconds",
                          "bytes_sent",
                          "memory_bytes",
                          "memory_peak_bytes",
                          "flops",
                          "gemm_flops_per_second",
                          "peak_flops_per_second"}) {
    EXPECT_TRUE(progress.contains(key)) << key;
  }
  const auto assign = json::parse(line_of(AgentMessage{Generation{1}, some_assignment()}));
  for (const char* key : {"job", "group", "incarnation", "rank", "world_size", "local_rank",
                          "token", "endpoints", "restore", "checkpoint_directory", "trainer"}) {
    EXPECT_TRUE(assign.contains(key)) << key;
  }
  EXPECT_TRUE(
      json::parse(line_of(WorkerMessage{Generation{1}, worker::Parked{}}))["slots"].empty());
}

TEST(WorkerMessage, AHandWrittenLineMayLeaveOutWhatIsNotKnown) {
  const auto message =
      parse_worker_line(R"({"type":"progress","generation":2,"step":7})").value().value();
  EXPECT_EQ(std::get<worker::Progress>(message.body).step, Step{7});
}

TEST(WorkerMessage, UnknownTypesAndKeysAreIgnored) {
  EXPECT_EQ(parse_worker_line(R"({"type":"snapshot","generation":1,"x":[]})").value(),
            std::nullopt);
  EXPECT_TRUE(
      parse_worker_line(R"({"type":"finished","generation":1,"step":3,"mood":"good"})").value());
  EXPECT_EQ(parse_agent_line(R"({"type":"exchanged","generation":1})").value(), std::nullopt);
}

TEST(WorkerMessage, WhatIsWrongIsNamed) {
  EXPECT_THAT(why_refused("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(why_refused(""), HasSubstr("no JSON object"));
  EXPECT_THAT(why_refused("{\"type\":\"fin"), HasSubstr("no JSON object"));
  EXPECT_THAT(why_refused(R"({"generation":1})"), HasSubstr("\"type\" is missing"));
  EXPECT_THAT(why_refused(R"({"type":"connected"})"), HasSubstr("\"generation\" is missing"));
  EXPECT_THAT(why_refused(R"({"type":"finished","generation":1,"step":-1})"),
              HasSubstr("\"step\" is no whole number"));
  EXPECT_THAT(why_refused(R"({"type":"ready","generation":1,"address":"a","port":65536})"),
              HasSubstr("\"port\" is no whole number from 0 to 65535"));
  EXPECT_THAT(why_refused(R"({"type":"failing","generation":1,"category":"x","reason":""})"),
              HasSubstr("\"category\""));
  EXPECT_THAT(why_refused(std::string(kWorkerLineBytesMax + 1, ' ')), HasSubstr("too long"));
  EXPECT_THAT(why_refused(std::string(1000, '[')), HasSubstr("nests too deep"));
  const auto endpoints = parse_agent_line(
      R"({"type":"assign","generation":1,"job":"j","group":"main","incarnation":1,"rank":0,
          "world_size":1,"local_rank":0,"token":"","endpoints":[{"rank":0,"address":"a"}],
          "restore":null,"checkpoint_directory":"/c","trainer":{}})");
  EXPECT_THAT(endpoints.error().text(), HasSubstr("in \"endpoints\": key \"port\" is missing"));
}

TEST(WorkerMessage, TheEndpointsOfALargeJobGoInSeveralLines) {
  auto assign = some_assignment();
  assign.endpoints.clear();
  for (std::uint32_t rank = 0; rank < 4096; ++rank) {
    assign.endpoints.push_back(
        {Rank{rank}, "fd00:1234:5678:9abc:def0:1234:5678:" + std::to_string(rank), 60000});
  }
  const auto lines = format_lines(AgentMessage{Generation{3}, assign});
  ASSERT_TRUE(lines) << lines.error().text();
  LineReader reader;
  reader.feed(*lines);
  std::vector<worker::Endpoint> found;
  std::size_t count = 0;
  for (auto line = reader.next(); line && *line; line = reader.next()) {
    const auto message = parse_agent_line(**line);
    ASSERT_TRUE(message && *message) << message.error().text();
    EXPECT_EQ((*message)->generation, Generation{3});
    const auto* part = std::get_if<worker::Endpoints>(&(*message)->body);
    const auto* end = std::get_if<worker::Assign>(&(*message)->body);
    const auto& list = part != nullptr ? part->endpoints : end->endpoints;
    found.insert(found.end(), list.begin(), list.end());
    ++count;
    EXPECT_EQ(end != nullptr, found.size() == 4096) << "the assignment is the last line";
  }
  ASSERT_EQ(found.size(), 4096U);
  EXPECT_GT(count, 4U);
  for (std::uint32_t rank = 0; rank < 4096; ++rank) EXPECT_EQ(found[rank].rank, Rank{rank});
}

TEST(WorkerMessage, AnAssignmentThatFitsIsOneLine) {
  const AgentMessage message{Generation{3}, some_assignment()};
  EXPECT_EQ(format_lines(message).value(), format_line(message).value());
}

TEST(WorkerMessage, WhatDoesNotFitALineIsNotWritten) {
  auto assign = some_assignment();
  assign.endpoints.assign(2000, {Rank{1}, "10.100.100.100", 60000});
  EXPECT_THAT(format_line(AgentMessage{Generation{1}, assign}).error().text(),
              HasSubstr("a line may have 65536"));
  auto broken = some_assignment();
  broken.trainer = "[1]";
  EXPECT_FALSE(format_line(AgentMessage{Generation{1}, broken}));
  // A reason of any length and of any bytes fits.
  const auto reason = std::string(1 << 20, '\xff');
  EXPECT_TRUE(format_line(
      WorkerMessage{Generation{1}, worker::Failing{worker::FailingCategory::storage, reason, {}}}));
}

TEST(LineReader, FindsTheSameLinesHoweverTheBytesAreCut) {
  const std::string bytes = "one\n\ntwo and a half\nrest";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    LineReader reader;
    std::vector<std::string> lines;
    for (const auto& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.feed(part);
      while (const auto line = reader.next().value()) lines.push_back(*line);
    }
    EXPECT_THAT(lines, testing::ElementsAre("one", "", "two and a half")) << "cut at " << cut;
  }
}

TEST(LineReader, ALineAboveTheBoundIsRefusedBeforeItsEndIsSeen) {
  LineReader reader;
  reader.feed(std::string(kWorkerLineBytesMax, 'x'));
  EXPECT_TRUE(reader.next());
  reader.feed("x");
  EXPECT_FALSE(reader.next());
}

}  // namespace
}  // namespace dlaunch::protocol
