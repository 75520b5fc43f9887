#include "launcher/controller/peer_book.h"

#include <gtest/gtest.h>

#include <set>

namespace dlaunch::launcher::controller {
namespace {

Instant at(milliseconds since) { return Instant{} + 1h + since; }

protocol::Facts facts(std::uint32_t host, std::uint32_t probe_port = 7) {
  protocol::Facts known;
  known.set_data_address("10.0.0." + std::to_string(host));
  known.set_probe_port(probe_port);
  known.set_relay_port(8);
  return known;
}

class PeerBookTest : public ::testing::Test {
 protected:
  void add(std::uint32_t host) {
    book_.present(at(now_), HostId{host}, "gpu" + std::to_string(host), facts(host));
  }
  void settle() {
    now_ += 300ms;
    last_.clear();
    for (auto& [host, peers] : book_.take(at(now_))) last_[host.value] = std::move(peers);
  }
  [[nodiscard]] std::string probed(std::uint32_t host) {
    std::string text;
    for (const auto& peer : last_[host].peers()) {
      if (peer.probe_port() != 0) text += std::to_string(peer.host());
    }
    return text;
  }
  milliseconds now_{0};
  PeerBook book_{100ms};
  std::map<std::uint32_t, protocol::Peers> last_;
};

TEST_F(PeerBookTest, EachHostProbesTheNextTwoOfTheRing) {
  for (std::uint32_t host = 0; host < 5; ++host) add(host);
  settle();
  EXPECT_EQ(probed(0), "12");
  EXPECT_EQ(probed(3), "40");
  EXPECT_EQ(probed(4), "01");
  EXPECT_EQ(last_[0].interval_ms(), 100U);
}

TEST_F(PeerBookTest, FewHostsProbeWhoThereIs) {
  add(0);
  settle();
  EXPECT_EQ(last_[0].peers_size(), 0);
  add(4);
  settle();
  EXPECT_EQ(probed(0), "4");
  EXPECT_EQ(probed(4), "0");
}

TEST_F(PeerBookTest, RelaysAreBoundedAndSomeAreFarAway) {
  for (std::uint32_t host = 0; host < 60; ++host) add(host);
  settle();
  for (std::uint32_t host = 0; host < 60; ++host) {
    std::set<std::uint32_t> seen;
    for (const auto& peer : last_[host].peers()) {
      EXPECT_NE(peer.host(), host);
      EXPECT_EQ(peer.relay_port(), 8U);
      EXPECT_TRUE(seen.insert(peer.host()).second);
    }
    EXPECT_EQ(seen.size(), PeerBook::kRelaysMax) << host;
    EXPECT_TRUE(seen.contains((host + 30) % 60)) << host;
  }
}

TEST_F(PeerBookTest, OnlyListsThatChangedAreSentAndManyChangesAreGathered) {
  for (std::uint32_t host = 0; host < 60; ++host) add(host);
  EXPECT_TRUE(book_.take(at(now_ + 10ms)).empty()) << "more may come";
  settle();
  EXPECT_EQ(last_.size(), 60U);
  EXPECT_EQ(book_.next_deadline(), std::nullopt);
  book_.gone(at(now_), HostId{10});
  settle();
  EXPECT_LE(last_.size(), 6U);
  EXPECT_EQ(probed(9), "1112");
  EXPECT_EQ(probed(8), "911");
}

TEST_F(PeerBookTest, AHostThatSaysHelloIsSentItsListAgain) {
  for (std::uint32_t host = 0; host < 3; ++host) add(host);
  settle();
  book_.greeted(at(now_), HostId{1});
  settle();
  EXPECT_EQ(last_.size(), 1U);
  EXPECT_EQ(probed(1), "20");
}

TEST_F(PeerBookTest, AnAgentThatListensToNobodyIsInNoList) {
  for (std::uint32_t host = 0; host < 3; ++host) add(host);
  auto deaf = facts(1, 0);
  deaf.set_relay_port(0);
  book_.present(at(now_), HostId{1}, "gpu1", deaf);
  settle();
  EXPECT_EQ(probed(0), "2");
  EXPECT_FALSE(last_.contains(1));
}

TEST_F(PeerBookTest, ANewAgentsPortReachesThoseWhoProbeIt) {
  for (std::uint32_t host = 0; host < 3; ++host) add(host);
  settle();
  book_.present(at(now_), HostId{1}, "gpu1", facts(1, 9));
  settle();
  EXPECT_EQ(last_.size(), 2U);
  EXPECT_EQ(last_[0].peers(0).probe_port(), 9U);
}

TEST(WordsOf, AReportIsBoundedAndItsNumbersToo) {
  protocol::PathReport report;
  for (std::uint32_t host = 0; host < 100; ++host) {
    auto& path = *report.add_paths();
    path.set_host(host);
    path.set_silent_seconds(host == 0 ? -1e300 : 1e300);
  }
  const auto words = words_of(HostId{3}, report);
  EXPECT_EQ(words.prober, HostId{3});
  EXPECT_EQ(words.words.size(), 16U);
  EXPECT_EQ(words.words[0].silent, 0ns);
}

}  // namespace
}  // namespace dlaunch::launcher::controller
