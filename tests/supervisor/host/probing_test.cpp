#include "supervisor/host/probing.h"

#include <gtest/gtest.h>

namespace dlaunch::supervisor::host {
namespace {

constexpr HostId kB{1}, kC{2};

/// A clock of its own; every probe is kept until the test answers it.
class ProbingTest : public ::testing::Test {
 protected:
  void put(const ProbeEvent& event) {
    for (auto& command : machine_.step(now_, event)) {
      if (const auto* probe = std::get_if<SendProbe>(&command)) {
        sent_[probe->host].push_back(probe->number);
      } else {
        reports_.push_back(std::get<ReportPaths>(command).report);
      }
    }
  }
  void know(std::initializer_list<HostId> hosts, std::uint32_t port = 7) {
    PeersGiven given;
    given.lost_after = 600ms;
    given.peers.set_interval_ms(100);
    for (const auto host : hosts) {
      auto& peer = *given.peers.add_peers();
      peer.set_host(host.value);
      peer.set_address("10.0.0." + std::to_string(host.value));
      peer.set_probe_port(port);
    }
    put(given);
  }
  /// `answering` answer each probe at once.
  void pass(nanoseconds length, std::set<HostId> answering) {
    for (const auto end = now_ + length; machine_.next_deadline() && now_ < end;) {
      now_ = std::min(end, std::max(now_, *machine_.next_deadline()));
      put(ProbeDue{});
      for (const auto host : answering) {
        if (!sent_[host].empty()) put(ProbeAnswered{host, sent_[host].back()});
      }
    }
  }
  [[nodiscard]] std::string newest() const {
    std::string text;
    if (reports_.empty()) return "none";
    for (const auto& path : reports_.back().paths()) {
      text += std::to_string(path.host()) + (path.answers() ? "+" : "-");
    }
    return text;
  }
  Instant now_ = Instant{} + 1h;
  Probing machine_;
  std::map<HostId, std::vector<std::uint64_t>> sent_;
  std::vector<protocol::PathReport> reports_;
};

TEST_F(ProbingTest, EachTargetIsProbedOnceAnInterval) {
  know({kB, kC});
  pass(1s, {kB, kC});
  EXPECT_EQ(sent_[kB].size(), 11U);
  EXPECT_EQ(sent_[kC].size(), 11U);
}

TEST_F(ProbingTest, OnlyChangesAreReportedAndEachReportSaysAll) {
  know({kB, kC});
  EXPECT_EQ(newest(), "") << "nothing is known yet";
  pass(5s, {kB, kC});
  EXPECT_EQ(newest(), "1+2+");
  EXPECT_EQ(reports_.size(), 3U);
}

TEST_F(ProbingTest, SilenceIsAWordAtThreeQuartersOfTheLimit) {
  know({kB, kC});
  pass(1s, {kB, kC});
  pass(400ms, {kC});
  EXPECT_EQ(newest(), "1+2+");
  pass(100ms, {kC});
  EXPECT_EQ(newest(), "1-2+");
  EXPECT_NEAR(reports_.back().paths(0).silent_seconds(), 0.5, 0.06);
  pass(100ms, {kB, kC});
  EXPECT_EQ(newest(), "1+2+") << "and one answer ends it";
}

TEST_F(ProbingTest, WhoNeverAnsweredHasNoWord) {
  know({kB, kC});
  pass(60s, {kC});
  EXPECT_EQ(newest(), "2+") << "a firewall may eat all probes";
}

TEST_F(ProbingTest, AnswersToNoOutstandingProbeAreNone) {
  know({kB});
  put(ProbeDue{});
  const auto number = sent_[kB].back();
  put(ProbeAnswered{kB, number + 1});
  put(ProbeAnswered{kC, number});
  EXPECT_EQ(newest(), "");
  put(ProbeAnswered{kB, number});
  EXPECT_EQ(newest(), "1+");
  pass(500ms, {});
  EXPECT_EQ(newest(), "1-");
  put(ProbeAnswered{kB, number});
  EXPECT_EQ(newest(), "1-") << "a replay";
}

TEST_F(ProbingTest, AnAnswerThatComesTooLateSaysNothing) {
  know({kB});
  pass(100ms, {kB});
  const auto late = sent_[kB].back() + 1;
  pass(600ms, {});
  ASSERT_EQ(newest(), "1-");
  put(ProbeAnswered{kB, late});
  EXPECT_EQ(newest(), "1-");
}

TEST_F(ProbingTest, TheAgentsOwnStallClearsWhatItHeldForSilent) {
  know({kB, kC});
  pass(1s, {kB, kC});
  pass(500ms, {kC});
  ASSERT_EQ(newest(), "1-2+");
  put(ProbingStalled{});
  EXPECT_EQ(newest(), "2+") << "it has no word until it is asked again";
  pass(500ms, {kC});
  EXPECT_EQ(newest(), "1-2+");
}

TEST_F(ProbingTest, LateTimersAloneMakeNoSilence) {
  know({kB});
  pass(1s, {kB});
  now_ += 2s;
  put(ProbeDue{});
  EXPECT_EQ(newest(), "1+") << "one probe is missing, not twenty";
}

TEST_F(ProbingTest, ATargetThatStaysKeepsItsWordAndAnotherPortIsAnother) {
  know({kB, kC});
  pass(1s, {kB, kC});
  know({kB});
  EXPECT_EQ(newest(), "1+");
  know({kB}, 8);
  EXPECT_EQ(newest(), "");
  know({});
  EXPECT_EQ(machine_.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
