// Each row of the table of suspicion: control path and data path, heard or silent.
#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous/coordinator.h"

namespace dlaunch::rendezvous {
namespace {

constexpr HostId kA{0}, kB{1}, kC{2}, kD{3}, kE{4};
const std::vector<HostId> kAll = {kA, kB, kC, kD, kE};
Instant at(milliseconds since) { return Instant{} + 1h + since; }

/// Five hosts that train; time passes in steps of 50 ms, and whoever is not silenced is heard.
class SuspicionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Policy policy;
    for (const auto host : kAll) {
      policy.hosts.push_back({host, std::string(1, static_cast<char>('a' + host.value))});
    }
    policy.hosts_min = 2;
    policy.hosts_max = 5;
    machine_.emplace(policy, Generation{0}, at(0ms));
    for (const auto host : kAll) {
      take(machine_->step(at(0ms), Arrived{host, "boot", 1, Generation{0}}));
      take(machine_->step(at(0ms), ReadyReported{host, 1, "10.0.0.1"}));
    }
    take(machine_->step(at(0ms), FormAsked{{}, "start"}));
    said_.clear();
  }
  void take(std::vector<Command> commands) {
    for (auto& command : commands) said_.push_back(std::move(command));
  }
  void put(const Event& event) { take(machine_->step(at(now_), event)); }
  void pass(milliseconds length) {
    for (const auto end = now_ + length; now_ < end;) {
      now_ += 50ms;
      for (const auto host : kAll) {
        if (!silent_.contains(host)) put(Heard{host, at(now_) - 1ms});
      }
      const auto due = machine_->next_deadline();
      if (due && *due <= at(now_)) put(DeadlineDue{});
    }
  }
  /// What `prober` says of `host`, and that all others whom it probes answer.
  void word(HostId prober, HostId host, bool answers) {
    put(PathsReported{prober, {{host, answers, answers ? nanoseconds(0ms) : 450ms}}});
  }
  template <class T>
  std::vector<T> of() const {
    std::vector<T> found;
    for (const auto& command : said_) {
      if (const auto* wanted = std::get_if<T>(&command)) found.push_back(*wanted);
    }
    return found;
  }
  [[nodiscard]] HostState state(HostId host) const { return machine_->view(host).state; }
  [[nodiscard]] std::string reason(HostId host) const { return machine_->view(host).reason; }

  milliseconds now_{0};
  std::set<HostId> silent_;
  std::vector<Command> said_;
  std::optional<Coordinator> machine_;
};

TEST_F(SuspicionTest, HeardAndAnsweringIsFine) {
  word(kA, kB, true);
  pass(10s);
  EXPECT_TRUE(of<HostSuspected>().empty());
  EXPECT_TRUE(of<DataPathBecame>().empty());
  EXPECT_EQ(state(kB), HostState::active);
}

TEST_F(SuspicionTest, SilentButAnsweringIsSuspectAndNeverEvicted) {
  word(kA, kB, true);
  silent_ = {kB};
  pass(60s);
  EXPECT_EQ(of<HostSuspected>().size(), 1U);
  EXPECT_TRUE(of<HostLost>().empty());
  EXPECT_EQ(state(kB), HostState::suspect);
  EXPECT_EQ(reason(kB), "its control path is cut: a still reaches it on the data path");
  silent_.clear();
  pass(100ms);
  EXPECT_EQ(of<HostCleared>().size(), 1U);
  EXPECT_EQ(state(kB), HostState::active);
  EXPECT_EQ(reason(kB), "");
}

TEST_F(SuspicionTest, SilentOnBothIsLostAtTheLimit) {
  word(kA, kB, true);
  word(kE, kB, true);
  silent_ = {kB};
  pass(500ms);
  word(kA, kB, false);
  word(kE, kB, false);
  EXPECT_TRUE(of<HostLost>().empty()) << "the limit is the control path's";
  pass(100ms);
  ASSERT_EQ(of<HostLost>().size(), 1U);
  EXPECT_EQ(of<HostLost>()[0].sentence, "silent for 600 ms, to the probes of a, e, too");
}

TEST_F(SuspicionTest, OneOfTwoProbersDoesNotConvict) {
  word(kA, kB, false);
  word(kE, kB, true);
  silent_ = {kB};
  pass(5s);
  EXPECT_TRUE(of<HostLost>().empty());
  word(kE, kB, false);
  EXPECT_EQ(of<HostLost>().size(), 1U) << "at once: its time is over long since";
}

TEST_F(SuspicionTest, OneProberConvictsWhereThereIsOnlyOne) {
  word(kA, kB, false);
  silent_ = {kB};
  pass(600ms);
  EXPECT_EQ(of<HostLost>().size(), 1U);
}

TEST_F(SuspicionTest, WithoutAProberTheLimitAloneDecides) {
  silent_ = {kB};
  pass(550ms);
  EXPECT_TRUE(of<HostLost>().empty());
  pass(50ms);
  ASSERT_EQ(of<HostLost>().size(), 1U);
  EXPECT_EQ(of<HostLost>()[0].sentence, "silent for 600 ms");
}

TEST_F(SuspicionTest, AProberThatFallsSilentItselfKeepsNobodyAlive) {
  word(kA, kB, true);
  silent_ = {kB};
  pass(2s);
  ASSERT_TRUE(of<HostLost>().empty());
  silent_.insert(kA);
  pass(700ms);
  EXPECT_EQ(state(kB), HostState::lost);
  EXPECT_EQ(state(kA), HostState::lost);
}

TEST_F(SuspicionTest, AProberWithANewAgentHasNoWordYet) {
  word(kA, kB, true);
  silent_ = {kB};
  pass(2s);
  put(Arrived{kA, "boot", 2, Generation{0}});
  pass(50ms);
  EXPECT_EQ(state(kB), HostState::lost);
}

TEST_F(SuspicionTest, HeardButReachedByNobodyIsItsDataLink) {
  pass(5s);
  word(kA, kB, false);
  EXPECT_TRUE(of<DataPathBecame>().empty()) << "one pair: it may be either end";
  word(kE, kB, false);
  ASSERT_EQ(of<DataPathBecame>().size(), 1U);
  EXPECT_EQ(of<DataPathBecame>()[0].host, kB);
  EXPECT_FALSE(of<DataPathBecame>()[0].up);
  EXPECT_EQ(of<DataPathBecame>()[0].since, at(now_ - 450ms));
  pass(10s);
  EXPECT_TRUE(of<HostLost>().empty()) << "it is heard";
  word(kE, kB, true);
  ASSERT_EQ(of<DataPathBecame>().size(), 2U);
  EXPECT_TRUE(of<DataPathBecame>()[1].up);
}

TEST_F(SuspicionTest, WhatAHostDidNotAnswerWhileItWasSilentIsNoWordOnItsLink) {
  pass(1s);
  silent_ = {kB};
  pass(550ms);
  word(kA, kB, false);
  word(kE, kB, false);
  EXPECT_TRUE(of<DataPathBecame>().empty());
  silent_.clear();  // its agent had been stopped; the probers have not heard of it yet
  pass(50ms);
  word(kC, kD, true);  // any report
  ASSERT_EQ(of<DataPathBecame>().size(), 1U);
  EXPECT_EQ(of<DataPathBecame>()[0].since, at(now_)) << "the window begins when it is heard again";
  EXPECT_TRUE(of<HostLost>().empty());
}

TEST_F(SuspicionTest, AHostThatIsSilentOnBothIsNoBrokenLink) {
  silent_ = {kB};
  pass(400ms);
  word(kA, kB, false);
  word(kE, kB, false);
  pass(300ms);
  EXPECT_TRUE(of<DataPathBecame>().empty());
  EXPECT_EQ(of<HostLost>().size(), 1U);
}

TEST_F(SuspicionTest, MostSilentAndNobodyWhoConfirmsItIsTheControllersOwnCut) {
  silent_ = {kA, kB, kC};
  word(kD, kE, true);
  pass(29s);
  EXPECT_TRUE(of<HostLost>().empty());
  EXPECT_EQ(of<StillWaiting>().size(), 1U);
  pass(3s);
  EXPECT_EQ(of<HostLost>().size(), 3U);
}

TEST_F(SuspicionTest, MostSilentAndAHeardHostThatConfirmsItIsARackThatIsGone) {
  silent_ = {kA, kB, kC};
  word(kE, kA, false);
  pass(600ms);
  EXPECT_EQ(of<HostLost>().size(), 3U);
}

TEST_F(SuspicionTest, AfterACutOfTheControllerNobodyIsConvictedForComingBackLast) {
  silent_ = {kA, kB, kC, kD, kE};
  pass(10s);
  silent_ = {kD, kE};
  pass(4s);
  EXPECT_TRUE(of<HostLost>().empty());
  silent_ = {kE};
  pass(2s);
  ASSERT_EQ(of<HostLost>().size(), 1U);
  EXPECT_EQ(of<HostLost>()[0].host, kE);
}

TEST_F(SuspicionTest, AStallOfTheControllerClearsAllSuspicionAndCountsAnew) {
  word(kA, kB, false);
  silent_ = {kB};
  pass(550ms);
  ASSERT_EQ(state(kB), HostState::suspect);
  put(Stalled{400ms});
  EXPECT_EQ(of<HostCleared>().size(), 1U);
  pass(550ms);
  EXPECT_TRUE(of<HostLost>().empty());
  pass(50ms);
  EXPECT_EQ(of<HostLost>().size(), 1U);
}

TEST_F(SuspicionTest, ARelayedHostIsSuspectAndKeepsItsRanks) {
  silent_ = {kB};
  pass(350ms);
  put(Arrived{kB, "boot", 1, Generation{1}, "c"});
  silent_.clear();
  pass(10s);
  EXPECT_EQ(state(kB), HostState::suspect);
  EXPECT_EQ(reason(kB), "its control path is cut; c relays");
  EXPECT_TRUE(of<HostCleared>().empty());
  EXPECT_TRUE(of<HostLost>().empty());
  said_.clear();
  put(FormAsked{{}, "a worker died"});
  ASSERT_EQ(of<Formed>().size(), 1U) << "it is a member like any other";
  EXPECT_EQ(of<Formed>()[0].plan.members.size(), 5U);
  put(Arrived{kB, "boot", 1, Generation{2}});
  EXPECT_EQ(of<HostCleared>().size(), 1U);
  EXPECT_EQ(state(kB), HostState::active);
  EXPECT_EQ(reason(kB), "");
}

TEST_F(SuspicionTest, ANewGenerationDoesNotWaitForAHostWhoseControlPathIsCutForGood) {
  word(kA, kB, true);
  silent_ = {kB};
  pass(400ms);
  put(FormAsked{{}, "a worker died"});
  EXPECT_TRUE(of<Formed>().empty()) << "it may be heard again";
  pass(300ms);
  ASSERT_EQ(of<Formed>().size(), 1U) << "no order would reach it";
  EXPECT_EQ(of<Formed>()[0].plan.members.size(), 4U);
}

TEST_F(SuspicionTest, AHeldHostKeepsNoDeadlineDue) {
  word(kA, kB, true);
  silent_ = {kB};
  pass(2s);
  const auto due = machine_->next_deadline();
  EXPECT_TRUE(!due || *due > at(now_)) << "or the controller would spin";
}

// Each of thousands that fall silent changes what is known of all others: they are judged together,
// and the deadline that says so never lies in the past, which would be answered at once, for ever.
TEST(ManySilent, AreJudgedTogetherAMomentLater) {
  constexpr std::uint32_t kHosts = 60, kSilent = 25;
  Policy policy;
  for (std::uint32_t i = 0; i < kHosts; ++i) {
    policy.hosts.push_back({HostId{i}, "h" + std::to_string(i)});
  }
  policy.hosts_min = 2;
  policy.hosts_max = kHosts;
  Coordinator machine(policy, Generation{0}, at(0ms));
  for (std::uint32_t i = 0; i < kHosts; ++i) {
    (void)machine.step(at(0ms), Arrived{HostId{i}, "boot", 1, Generation{0}});
    (void)machine.step(at(0ms), ReadyReported{HostId{i}, 1, "10.0.0.1"});
  }
  (void)machine.step(at(0ms), FormAsked{{}, "start"});
  std::size_t lost = 0;
  const auto limit = policy.lost_after + 100ms + 20ms;
  for (auto now = 10ms; now <= limit; now += 10ms) {
    for (auto i = kSilent; i < kHosts; ++i) {
      (void)machine.step(at(now), Heard{HostId{i}, at(now) - 1ms});
    }
    if (machine.next_deadline() > at(now)) continue;
    for (const auto& command : machine.step(at(now), DeadlineDue{})) {
      lost += std::holds_alternative<HostLost>(command) ? 1 : 0;
    }
    ASSERT_GT(machine.next_deadline(), at(now));
  }
  EXPECT_EQ(lost, kSilent);
}

}  // namespace
}  // namespace dlaunch::rendezvous
