// The controller's listener against agents and strangers, in one process over loopback.
#include "rendezvous/io/tls_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>

#include "base/io/descriptor_limit.h"
#include "protocol/limits.h"
#include "tests/rendezvous/io/dialer.h"
#include "tests/rendezvous/io/trickle.h"

namespace dlaunch::rendezvous {
namespace {

using protocol::AgentFrame;
using protocol::ControllerFrame;
using testing::HasSubstr;
namespace asio = boost::asio;

constexpr auto kJob = "kjv-1";
constexpr auto kDeadline = 30s;  // generous; every wait below ends on a condition

class TlsServerTest : public testing::Test {
 protected:
  struct Frame {
    HostId host;
    std::uint64_t connection;
    std::optional<Instant> sent_at;
    AgentFrame frame;
  };
  struct Closed {
    HostId host;
    std::uint64_t connection;
    std::string reason;
  };

  void start(nanoseconds hello_limit = 5s) {
    TlsServer::Handlers handlers;
    handlers.frame = [this](HostId host, std::uint64_t connection, std::optional<Instant> sent_at,
                            AgentFrame frame) {
      frames_.push_back({host, connection, sent_at, std::move(frame)});
    };
    handlers.closed = [this](HostId host, std::uint64_t connection, std::string reason) {
      closed_.push_back({host, connection, std::move(reason)});
    };
    handlers.refused = [this](std::string sentence) { refused_.push_back(std::move(sentence)); };
    server_.emplace(context_, TlsServer::Setting{kJob, secret_, 4, hello_limit},
                    std::move(handlers));
    const auto port = server_->listen({"127.0.0.1"}, {29600, 29899}, 29700);
    ASSERT_TRUE(port) << port.error().text();
    port_ = *port;
  }
  template <class Condition>
  [[nodiscard]] bool run_until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      context_.run_one_for(100ms);
    }
    return true;
  }
  std::shared_ptr<Dialer> dial(HostId host, const Secret& secret) {
    auto dialer =
        std::make_shared<Dialer>(context_, psk_identity(kJob, host), host_key(secret, host));
    dialer->start(port_);
    return dialer;
  }
  /// Authenticated and greeted.
  std::shared_ptr<Dialer> join(HostId host) {
    auto dialer = dial(host, secret_);
    EXPECT_TRUE(run_until([&] { return dialer->connected || dialer->error; }));
    EXPECT_TRUE(dialer->connected);
    dialer->send(hello(host));
    const auto before = frames_.size();
    EXPECT_TRUE(run_until([&] { return frames_.size() > before; }));
    return dialer;
  }
  static AgentFrame hello(HostId host, const std::string& job = kJob) {
    AgentFrame frame;
    frame.set_job(job);
    frame.set_host(host.value);
    frame.mutable_hello()->set_protocol(protocol::kProtocolVersion);
    return frame;
  }
  static ControllerFrame beat() {
    ControllerFrame frame;
    frame.set_job(kJob);
    frame.mutable_beat();
    return frame;
  }

  void TearDown() override {
    server_.reset();
    context_.restart();
    context_.run_for(kDeadline);
    EXPECT_TRUE(context_.stopped()) << "nothing waits any more once the server is gone";
  }

  boost::asio::io_context context_;
  Secret secret_ = make_secret();
  std::optional<TlsServer> server_;
  std::uint16_t port_ = 0;
  std::vector<Frame> frames_;
  std::vector<Closed> closed_;
  std::vector<std::string> refused_;
};

TEST_F(TlsServerTest, TheRightKeyGetsInAndFramesGoBothWays) {
  start();
  const auto agent = join(HostId{2});
  EXPECT_EQ(frames_.at(0).host, HostId{2});
  EXPECT_TRUE(frames_.at(0).frame.has_hello());
  server_->send({HostId{2}, HostId{3}}, beat());
  ASSERT_TRUE(run_until([&] { return agent->received.size() == 1; }));
  EXPECT_EQ(agent->received[0].number(), 1U);
  EXPECT_EQ(agent->received[0].acknowledged(), 1U);

  AgentFrame heartbeat;
  heartbeat.set_acknowledged(1);
  heartbeat.mutable_heartbeat();
  agent->send(heartbeat);
  ASSERT_TRUE(run_until([&] { return frames_.size() == 2; }));
  EXPECT_TRUE(frames_[1].sent_at) << "when the acknowledged beat left is known";
  EXPECT_TRUE(refused_.empty());
}

TEST_F(TlsServerTest, ABeatAfterOtherWordsAnswersTheNextFrameOrGoesWithTheNextBeat) {
  start();
  const auto agent = join(HostId{2});
  ControllerFrame go;
  go.mutable_go();
  server_->send({HostId{2}}, go);
  server_->send({HostId{2}}, beat());
  server_->send({HostId{2}}, go);
  ASSERT_TRUE(run_until([&] { return agent->received.size() == 2; }));
  EXPECT_TRUE(agent->received[1].has_go()) << "the beat would say nothing new";
  AgentFrame heartbeat;
  heartbeat.mutable_heartbeat();
  agent->send(heartbeat);
  ASSERT_TRUE(run_until([&] { return agent->received.size() == 3; }));
  EXPECT_TRUE(agent->received[2].has_beat());
  EXPECT_EQ(agent->received[2].acknowledged(), 2U);
  server_->send({HostId{2}}, beat());
  server_->send({HostId{2}}, beat());
  ASSERT_TRUE(run_until([&] { return agent->received.size() == 4; })) << "it is silent";
  EXPECT_TRUE(agent->received[3].has_beat());
}

/// A heartbeat whose record has about so many bytes.
AgentFrame heartbeat_of(std::size_t bytes) {
  AgentFrame frame;
  frame.mutable_heartbeat();
  frame.set_job(std::string(bytes, 'x'));
  return frame;
}

TEST_F(TlsServerTest, NoFrameIsLeftLyingHoweverTheBytesCome) {
  start();
  for (const std::size_t piece : {1U, 5U, 1000U, 4096U}) {
    SCOPED_TRACE(piece);
    const auto wire = std::make_shared<Trickle>(context_, port_, piece);
    auto agent = std::make_shared<Dialer>(context_, psk_identity(kJob, HostId{1}),
                                          host_key(secret_, HostId{1}));
    agent->start(wire->start());
    ASSERT_TRUE(run_until([&] { return agent->connected; }));
    frames_.clear();
    agent->send(hello(HostId{1}));
    // Around what the server reads at a time: 1,024 bytes with the record's head and tail.
    for (std::size_t size = 950; size < 1020; size += 3) agent->send(heartbeat_of(size));
    ASSERT_TRUE(run_until([&] { return frames_.size() == 25; })) << frames_.size();
  }
}

TEST_F(TlsServerTest, WhatComesWithTheEndOfTheHandshakeOrOfTheConnectionIsHeard) {
  start();
  const auto wire = std::make_shared<Trickle>(context_, port_, 4096);
  auto agent = std::make_shared<Dialer>(context_, psk_identity(kJob, HostId{1}),
                                        host_key(secret_, HostId{1}));
  wire->hold_from_the_answer_on();
  agent->start(wire->start());
  ASSERT_TRUE(run_until([&] { return agent->connected && wire->held() > 0; }));
  const auto finished = wire->held();
  agent->send(hello(HostId{1}));
  agent->send(heartbeat_of(10));
  ASSERT_TRUE(run_until([&] { return wire->held() > finished + 60; }));
  wire->release();
  ASSERT_TRUE(run_until([&] { return frames_.size() == 2; })) << "with the handshake's last bytes";
  wire->hold();
  agent->send(heartbeat_of(20));
  agent->send(heartbeat_of(2000));
  ASSERT_TRUE(run_until([&] { return wire->held() > 2000; }));
  wire->release();
  wire->end();
  ASSERT_TRUE(run_until([&] { return !closed_.empty(); }));
  EXPECT_EQ(frames_.size(), 4U) << "before the end";
}

TEST_F(TlsServerTest, AWrongKeyIsRefusedOnBothSides) {
  start();
  const auto stranger = dial(HostId{1}, make_secret());
  ASSERT_TRUE(run_until([&] { return stranger->error && !refused_.empty(); }));
  EXPECT_FALSE(stranger->connected);
  EXPECT_THAT(refused_.at(0), HasSubstr("no key of this job"));
  EXPECT_TRUE(frames_.empty());
}

TEST_F(TlsServerTest, AHostOrJobThatDoesNotExistIsRefused) {
  start();
  for (const auto& identity : {psk_identity(kJob, HostId{4}), psk_identity("other", HostId{1}),
                               std::string("kjv-1/"), std::string("kjv-1/1x"), std::string("/")}) {
    const auto before = refused_.size();
    const auto stranger =
        std::make_shared<Dialer>(context_, identity, host_key(secret_, HostId{1}));
    stranger->start(port_);
    ASSERT_TRUE(run_until([&] { return stranger->error && refused_.size() > before; })) << identity;
    EXPECT_FALSE(stranger->connected) << identity;
  }
}

TEST_F(TlsServerTest, AHelloOfAnotherHostThanTheKeysIsRefused) {
  start();
  const auto liar = dial(HostId{1}, secret_);
  ASSERT_TRUE(run_until([&] { return liar->connected; }));
  liar->send(hello(HostId{2}));
  ASSERT_TRUE(run_until([&] { return !refused_.empty(); }));
  EXPECT_THAT(refused_[0], HasSubstr("has the key of host 1"));
  EXPECT_TRUE(frames_.empty());
}

TEST_F(TlsServerTest, StrangersBytesAreRefusedBeforeAnyFrame) {
  start();
  RawDialer stranger(context_, port_);
  stranger.send("GET / HTTP/1.1\r\n\r\n" + std::string(100'000, 'x'));
  ASSERT_TRUE(run_until([&] { return !refused_.empty(); }));
  EXPECT_TRUE(frames_.empty());
}

TEST_F(TlsServerTest, AConnectionThatSaysNothingIsClosedAfterTheHelloLimit) {
  start(200ms);
  RawDialer silent(context_, port_);
  const auto quiet_after_handshake = dial(HostId{1}, secret_);
  ASSERT_TRUE(run_until([&] { return refused_.size() == 2; }));
  EXPECT_THAT(refused_[0], HasSubstr("did not say hello in time"));
}

TEST_F(TlsServerTest, AFloodOfHalfOpenConnectionsIsTurnedOutOnceAnAgentFromThereWaits) {
  start(500ms);
  std::deque<RawDialer> flood;
  for (std::size_t i = 0; i < 2 * protocol::kHandshakesPendingMax; ++i) {
    flood.emplace_back(context_, port_);
  }
  const auto agent = dial(HostId{0}, secret_);
  ASSERT_TRUE(run_until([&] { return agent->connected || agent->error; }));
  EXPECT_TRUE(agent->connected) << agent->error_text;
  EXPECT_GE(refused_.size(), 1U) << "all places were taken";
}

TEST_F(TlsServerTest, AFloodFromOneAddressDoesNotDelayAnAgentFromAnother) {
  start(kDeadline);
  std::deque<RawDialer> flood;
  for (std::size_t i = 0; i < protocol::kHandshakesPendingMax + 100; ++i) {
    flood.emplace_back(context_, port_, "127.0.0.2");
  }
  ASSERT_TRUE(run_until([&] { return context_.poll() == 0; }));
  const auto agent = join(HostId{0});
  EXPECT_FALSE(refused_.empty()) << "it got the place of one of them";
  for (const auto& refusal : refused_) {
    EXPECT_THAT(refusal, HasSubstr("from 127.0.0.2 "));
    EXPECT_THAT(refusal, HasSubstr("others wait for its place"));
  }
}

/// Resident memory of this process, KiB.
std::size_t resident_kib() {
  std::ifstream status("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  status >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

TEST_F(TlsServerTest, ThousandsOfHalfOpenConnectionsCostBoundedMemoryAndAllAgentsGetIn) {
  start(300ms);
  constexpr std::size_t kFlood = 2000;
  allow_many_descriptors();
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < kFlood + 1000) GTEST_SKIP() << "needs 3000 file descriptors";
  std::deque<RawDialer> flood;
  for (std::size_t i = 0; i < kFlood; ++i) {
    flood.emplace_back(context_, port_);
    flood.back().send("\x16\x03\x01\x02");  // a TLS record that never gets any further
  }
  [[maybe_unused]] const auto before = resident_kib();
  std::vector<std::shared_ptr<Dialer>> agents;
  for (std::uint32_t i = 0; i < 4; ++i) agents.push_back(dial(HostId{i}, secret_));
  ASSERT_TRUE(run_until([&] {
    return std::all_of(agents.begin(), agents.end(), [](const auto& a) { return a->connected; });
  })) << "places of strangers become free at the hello limit";
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory, and so holds far more
  EXPECT_LT(resident_kib() - before, protocol::kHandshakesPendingMax * 64)
      << "no more than the pending handshakes hold memory, below 64 KiB each";
#endif
  ASSERT_TRUE(run_until([&] { return refused_.size() >= kFlood; }));
}

TEST_F(TlsServerTest, WhatAnotherConnectionSentIsRefusedWhenAStrangerRepeatsIt) {
  start();
  // A stranger between an agent and the controller keeps all that goes by.
  asio::ip::tcp::acceptor tap(context_, loopback(0));
  const auto agent = std::make_shared<Dialer>(context_, psk_identity(kJob, HostId{1}),
                                              host_key(secret_, HostId{1}));
  agent->start(tap.local_endpoint().port());
  auto near = tap.accept();
  asio::ip::tcp::socket far(context_);
  far.connect(loopback(port_));
  near.non_blocking(true);
  far.non_blocking(true);
  std::string kept;
  const auto pass_on = [&] {
    std::array<char, 4096> buffer{};
    boost::system::error_code code;
    const auto up = near.read_some(asio::buffer(buffer), code);
    kept.append(buffer.data(), up);
    if (up > 0) asio::write(far, asio::buffer(buffer.data(), up));
    const auto down = far.read_some(asio::buffer(buffer), code);
    if (down > 0) asio::write(near, asio::buffer(buffer.data(), down));
  };
  ASSERT_TRUE(run_until([&] {
    pass_on();
    return agent->connected;
  }));
  agent->send(hello(HostId{1}));
  ASSERT_TRUE(run_until([&] {
    pass_on();
    return frames_.size() == 1;
  }));
  RawDialer stranger(context_, port_);
  stranger.send(kept);
  ASSERT_TRUE(run_until([&] { return !refused_.empty(); }));
  EXPECT_EQ(frames_.size(), 1U) << "the repeated hello is not heard";
  EXPECT_TRUE(closed_.empty()) << "and the agent is not replaced";
}

TEST_F(TlsServerTest, AHelloBeyondItsBoundEndsTheConnection) {
  start();
  const auto agent = dial(HostId{1}, secret_);
  ASSERT_TRUE(run_until([&] { return agent->connected; }));
  auto large = hello(HostId{1});
  large.mutable_hello()->set_build(std::string(protocol::kHelloBytesMax, 'b'));
  agent->send(large);
  ASSERT_TRUE(run_until([&] { return !refused_.empty(); }));
  EXPECT_THAT(refused_[0], HasSubstr("65536 are allowed"));
}

TEST_F(TlsServerTest, AFrameBeyondItsBoundEndsTheConnection) {
  start();
  const auto agent = join(HostId{1});
  agent->send_bytes(std::string("\x7f\xff\xff\xff", 4));
  ASSERT_TRUE(run_until([&] { return !closed_.empty(); }));
  EXPECT_THAT(closed_[0].reason, HasSubstr("are allowed"));
}

TEST_F(TlsServerTest, ABrokenFrameEndsTheConnection) {
  start();
  const auto agent = join(HostId{1});
  agent->send_bytes(std::string("\0\0\0\3\xff\xff\xff", 7));
  ASSERT_TRUE(run_until([&] { return !closed_.empty(); }));
  EXPECT_THAT(closed_[0].reason, HasSubstr("cannot be read"));
}

TEST_F(TlsServerTest, TextThatIsNoneEndsOnlyTheConnectionOfWhoSentIt) {
  start();
  const auto broken = join(HostId{1});
  const auto good = join(HostId{2});
  AgentFrame lines;
  lines.mutable_log_lines()->set_text("gr\xFC\xDF\n");
  broken->send(lines);
  ASSERT_TRUE(run_until([&] { return !closed_.empty(); }));
  EXPECT_EQ(closed_[0].host, HostId{1});
  EXPECT_THAT(closed_[0].reason, HasSubstr("cannot be read"));
  server_->send({HostId{2}}, beat());
  ASSERT_TRUE(run_until([&] { return good->received.size() == 1; }));
  EXPECT_EQ(closed_.size(), 1U);
}

TEST_F(TlsServerTest, AReasonThatQuotesAHostReachesTheAgentsAsText) {
  start();
  const auto agent = join(HostId{1});
  ControllerFrame abort;
  abort.mutable_abort()->set_reason("the host said \"gr\xFC\xDF\"");
  server_->send({HostId{1}}, abort);
  ASSERT_TRUE(run_until([&] { return agent->received.size() == 1; }));
  EXPECT_EQ(agent->received[0].abort().reason(), "the host said \"gr\uFFFD\uFFFD\"");
}

TEST_F(TlsServerTest, TheNewestConnectionOfAHostTakesThePlaceOfTheOneBefore) {
  start();
  const auto first = join(HostId{1});
  const auto second = join(HostId{1});
  ASSERT_TRUE(run_until([&] { return first->error && closed_.size() == 1; }));
  EXPECT_EQ(closed_[0].connection, frames_[0].connection);
  server_->send({HostId{1}}, beat());
  ASSERT_TRUE(run_until([&] { return second->received.size() == 1; }));
}

TEST_F(TlsServerTest, ClosingAHostEndsItsConnectionWithTheReason) {
  start();
  const auto agent = join(HostId{1});
  server_->close(HostId{1}, "silent for 0.6 s");
  ASSERT_TRUE(run_until([&] { return agent->error.has_value(); }));
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].reason, "silent for 0.6 s");
}

TEST_F(TlsServerTest, AnAgentThatLeavesIsReportedOnce) {
  start();
  auto agent = join(HostId{1});
  agent->close();
  ASSERT_TRUE(run_until([&] { return !closed_.empty(); }));
  EXPECT_EQ(closed_.size(), 1U);
}

TEST_F(TlsServerTest, AnAgentThatDoesNotReadIsClosedAndNotWaitedFor) {
  start();
  const auto agent = join(HostId{1});
  agent->read_no_more();
  ControllerFrame large;
  large.mutable_assign()->set_token(std::string(1 << 20, 't'));
  for (int i = 0; i < 64 && closed_.empty(); ++i) {
    server_->send({HostId{1}}, large);
    context_.poll();
  }
  ASSERT_TRUE(run_until([&] { return !closed_.empty(); }));
  EXPECT_THAT(closed_[0].reason, HasSubstr("reads too slowly"));
}

TEST_F(TlsServerTest, APortThatIsTakenIsPassedOver) {
  start();
  TlsServer::Handlers none;
  none.refused = [](const std::string&) {};
  TlsServer other(context_, TlsServer::Setting{kJob, secret_, 1, 5s}, none);
  const auto next =
      other.listen({"127.0.0.1"}, {port_, static_cast<std::uint16_t>(port_ + 5)}, port_);
  ASSERT_TRUE(next) << next.error().text();
  EXPECT_NE(*next, port_);
  TlsServer third(context_, TlsServer::Setting{kJob, secret_, 1, 5s}, none);
  const auto full = third.listen({"127.0.0.1"}, {port_, port_}, port_);
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().text(), HasSubstr(std::to_string(port_)));
}

}  // namespace
}  // namespace dlaunch::rendezvous
