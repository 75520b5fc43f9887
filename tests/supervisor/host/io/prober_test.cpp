// Probes between agents over real sockets, and what strangers can do to them.
#include "supervisor/host/io/prober.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/io/clock.h"

namespace dlaunch::supervisor::host {
namespace {

namespace asio = boost::asio;
using asio::ip::udp;

constexpr const char* kLoopback = "127.0.0.1";
const std::string kKey(32, 'k');

/// An agent's prober and the last that it reported.
struct Side {
  Side(asio::io_context& context, HostId id, std::uint64_t agent, const std::string& key = kKey)
      : host(id), prober(context, {"job-1", id, agent, [this](protocol::PathReport report) {
                                     last = std::move(report);
                                   }}) {
    prober.set_key(key);
    port = prober.open(kLoopback, {});
  }
  void probe(HostId whom, std::uint32_t at_port) {
    protocol::Peers peers;
    peers.set_interval_ms(10);
    auto& peer = *peers.add_peers();
    peer.set_host(whom.value);
    peer.set_address(kLoopback);
    peer.set_probe_port(at_port);
    prober.set_peers(std::move(peers), 400ms);
  }
  [[nodiscard]] bool answers() const { return last.paths_size() == 1 && last.paths(0).answers(); }
  [[nodiscard]] bool silent() const { return last.paths_size() == 1 && !last.paths(0).answers(); }
  HostId host;
  protocol::PathReport last;
  Prober prober;
  std::uint32_t port = 0;
};

class ProberTest : public ::testing::Test {
 protected:
  template <class Condition>
  [[nodiscard]] bool until(Condition holds, nanoseconds limit = 20s) {
    const auto due = monotonic_now() + limit;
    while (!holds()) {
      if (monotonic_now() > due) return false;
      context_.restart();
      context_.run_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  [[nodiscard]] static udp::endpoint at(std::uint32_t port) {
    return {asio::ip::make_address(kLoopback), static_cast<std::uint16_t>(port)};
  }
  [[nodiscard]] static protocol::ProbeDatagram question(std::uint64_t agent = 7) {
    protocol::ProbeDatagram probe;
    probe.set_job("job-1");
    probe.set_from(9);
    probe.set_to(2);
    probe.set_agent(agent);
    probe.set_number(1);
    return probe;
  }
  asio::io_context context_;
};

TEST_F(ProberTest, AnAgentThatRunsAnswersAndOneThatIsGoneIsSilent) {
  Side a(context_, HostId{1}, 11);
  auto b = std::make_unique<Side>(context_, HostId{2}, 22);
  a.probe(b->host, b->port);
  ASSERT_TRUE(until([&] { return a.answers(); }));
  b->prober.close();
  ASSERT_TRUE(until([&] { return a.silent(); }));
  EXPECT_GE(a.last.paths(0).silent_seconds(), 0.3);
}

TEST_F(ProberTest, APortOfTheRangeIsTakenAndNoneWhereAllAreTaken) {
  Side a(context_, HostId{1}, 11);
  Prober other(context_, {"job-1", HostId{2}, 22, [](const protocol::PathReport&) {}});
  EXPECT_EQ(other.open(kLoopback, {a.port, a.port}), 0U);
  EXPECT_EQ(other.open("192.0.2.1", {}), 0U) << "not an address of this host";
}

TEST_F(ProberTest, AnotherJobsKeyGetsNoAnswer) {
  Side a(context_, HostId{1}, 11, std::string(32, 'x'));
  Side b(context_, HostId{2}, 22);
  a.probe(b.host, b.port);
  ASSERT_TRUE(until([&] { return b.prober.dropped() >= 5; }));
  EXPECT_EQ(a.last.paths_size(), 0);
}

TEST_F(ProberTest, StrangersAreDroppedWithoutAWord) {
  Side b(context_, HostId{2}, 22);
  udp::socket stranger(context_, udp::endpoint(udp::v4(), 0));
  stranger.non_blocking(true);
  const auto good = seal_probe(kKey, question());
  std::vector<std::string> bad = {"", "x", std::string(16, '\0'), std::string(1400, 'a')};
  for (std::size_t cut = 1; cut < good.size(); ++cut) bad.push_back(good.substr(0, cut));
  for (std::size_t at = 0; at < good.size(); ++at) {
    bad.push_back(good);
    bad.back()[at] = static_cast<char>(bad.back()[at] ^ 1);
  }
  auto for_another = question();
  for_another.set_to(3);
  bad.push_back(seal_probe(kKey, for_another));
  auto of_another_job = question();
  of_another_job.set_job("job-2");
  bad.push_back(seal_probe(kKey, of_another_job));
  for (const auto& datagram : bad) {
    stranger.send_to(asio::buffer(datagram), at(b.port));
    const auto before = b.prober.dropped();
    ASSERT_TRUE(until([&] { return b.prober.dropped() > before; }));
  }
  std::array<char, 512> buffer{};
  boost::system::error_code code;
  stranger.receive(asio::buffer(buffer), 0, code);
  EXPECT_EQ(code, asio::error::would_block) << "no byte came back";
  stranger.send_to(asio::buffer(good), at(b.port));
  std::size_t bytes = 0;
  ASSERT_TRUE(until([&] {
    bytes = stranger.receive(asio::buffer(buffer), 0, code);
    return !code;
  }));
  const auto answer = open_probe(kKey, {buffer.data(), bytes});
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->answer());
  EXPECT_LE(bytes, good.size() + 2) << "an answer is no larger than its question";
}

TEST_F(ProberTest, OnlyAnAnswerToItsOwnOutstandingProbeCounts) {
  Side a(context_, HostId{1}, 11);
  udp::socket target(context_, at(0));
  target.non_blocking(true);
  a.probe(HostId{2}, target.local_endpoint().port());
  std::array<char, 512> buffer{};
  udp::endpoint from;
  std::size_t bytes = 0;
  const auto receive = [&] {
    boost::system::error_code code;
    bytes = target.receive_from(asio::buffer(buffer), from, 0, code);
    return !code;
  };
  ASSERT_TRUE(until(receive));
  auto probe = open_probe(kKey, {buffer.data(), bytes});
  ASSERT_TRUE(probe.has_value());
  EXPECT_EQ(probe->from(), 1U);
  auto answer = *probe;
  answer.set_from(2);
  answer.set_to(1);
  answer.set_answer(true);
  auto of_another_agent = answer;
  of_another_agent.set_agent(12);
  target.send_to(asio::buffer(seal_probe(kKey, of_another_agent)), from);
  ASSERT_TRUE(until([&] { return a.prober.dropped() == 1; }));
  auto unasked = answer;
  unasked.set_number(answer.number() + 1'000'000);
  target.send_to(asio::buffer(seal_probe(kKey, unasked)), from);
  auto of_another_host = answer;
  of_another_host.set_from(3);
  target.send_to(asio::buffer(seal_probe(kKey, of_another_host)), from);
  ASSERT_TRUE(until(receive));
  EXPECT_EQ(a.last.paths_size(), 0);
  const auto right = seal_probe(kKey, answer);
  target.send_to(asio::buffer(right), from);
  ASSERT_TRUE(until([&] { return a.answers(); }));
  // The same answer again and again keeps nobody alive.
  ASSERT_TRUE(until([&] {
    target.send_to(asio::buffer(right), from);
    return a.silent();
  }));
}

TEST_F(ProberTest, AFloodCostsABoundedShareAndTheAgentGoesOn) {
  Side b(context_, HostId{2}, 22);
  udp::socket stranger(context_, udp::endpoint(udp::v4(), 0));
  stranger.non_blocking(true);
  const std::string noise(100, 'n');
  boost::system::error_code ignored;
  const auto begin = monotonic_now();
  const auto end = begin + 500ms;
  while (monotonic_now() < end) {
    for (int i = 0; i < 200; ++i) stranger.send_to(asio::buffer(noise), at(b.port), 0, ignored);
    context_.restart();
    context_.poll();
  }
  const auto slices = (monotonic_now() - begin) / 100ms + 2;
  EXPECT_LE(b.prober.dropped(), static_cast<std::uint64_t>(slices) * 2'000);
  Side a(context_, HostId{1}, 11);
  a.probe(b.host, b.port);
  EXPECT_TRUE(until([&] { return a.answers(); }));
}

}  // namespace
}  // namespace dlaunch::supervisor::host
