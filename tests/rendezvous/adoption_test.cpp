// A coordinator that takes over the generation of an earlier incarnation.
#include <gtest/gtest.h>

#include "rendezvous/coordinator.h"
#include "tests/rendezvous/answers.h"

namespace dlaunch::rendezvous {
namespace {

constexpr HostId kA{0}, kB{1}, kC{2}, kS{3};
constexpr Generation kGeneration{4};
Instant at(milliseconds since) { return Instant{} + 1h + since; }

/// Hosts a, b, c and the spare s, which has b's seat; a, s and c are the members of generation 4.
class AdoptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Policy policy;
    policy.hosts = {{kA, "a"}, {kB, "b"}, {kC, "c"}, {kS, "s", true}};
    policy.hosts_min = 2;
    policy.hosts_max = 3;
    policy.successor_limit = 900ms;
    policy.readmit = 5s;
    Plan plan;
    plan.generation = kGeneration;
    plan.members = {
        {kA, Rank{0}, 2, "10.0.0.1"}, {kS, Rank{2}, 2, "10.0.0.4"}, {kC, Rank{4}, 2, "10.0.0.3"}};
    plan.world_size = 6;
    plan.seats = {kA, kS, kC};
    machine_.emplace(policy, plan, at(0ms));
  }
  std::vector<Command> step(milliseconds t, const Event& event) {
    return machine_->step(at(t), event);
  }
  std::vector<Command> arrive(milliseconds t, HostId host, std::uint64_t running = 4) {
    auto commands = step(t, Arrived{host, "boot", 7, Generation{running}});
    const auto more = step(t, ReadyReported{host, 2, "10.0.0.9"});
    commands.insert(commands.end(), more.begin(), more.end());
    return commands;
  }
  std::vector<Command> until(milliseconds t) {
    std::vector<Command> all;
    while (const auto due = machine_->next_deadline()) {
      if (*due > at(t)) break;
      for (auto& command : machine_->step(*due, DeadlineDue{})) all.push_back(std::move(command));
    }
    return all;
  }
  std::optional<Coordinator> machine_;
};

TEST_F(AdoptionTest, MembersThatComeBackAreActiveAndNothingElseHappens) {
  for (const auto host : {kA, kC, kS}) {
    const auto said = arrive(100ms, host);
    EXPECT_TRUE(of<AgentGone>(said).empty());
    EXPECT_TRUE(of<HostReturned>(said).empty());
    EXPECT_TRUE(of<QuorumReached>(said).empty());
    EXPECT_EQ(machine_->view(host).state, HostState::active);
  }
  (void)arrive(200ms, kB, 0);
  EXPECT_EQ(machine_->view(kB).state, HostState::spare) << "its seat went to another";
}

TEST_F(AdoptionTest, NobodyIsConvictedBeforeReadmitIsOver) {
  for (const auto host : {kA, kS}) (void)arrive(100ms, host);
  EXPECT_TRUE(of<HostLost>(until(4999ms)).empty()) << "not even the silent ones";
  const auto said = until(5s);
  const auto lost = of<HostLost>(said);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].host, kC);
  EXPECT_NE(lost[0].sentence.find("did not come back within 5 s"), std::string::npos);
  EXPECT_EQ(of<HostLost>(until(5700ms)).size(), 2U) << "silence counts from then on";
}

TEST_F(AdoptionTest, TheNextGenerationIsHigherAndKeepsTheSeats) {
  for (const auto host : {kA, kC, kS, kB}) (void)arrive(100ms, host);
  const auto formed = of<Formed>(step(200ms, FormAsked{{}, "a worker died"}));
  ASSERT_EQ(formed.size(), 1U);
  const auto& plan = formed[0].plan;
  EXPECT_EQ(plan.generation, Generation{5});
  ASSERT_EQ(plan.members.size(), 3U);
  EXPECT_EQ(plan.members[1].host, kS);
  EXPECT_EQ(plan.members[1].first_rank, Rank{2});
  EXPECT_TRUE(plan.replaced.empty());
}

TEST_F(AdoptionTest, AGenerationThatBreaksMeanwhileWaitsForThoseWhoMayComeBack) {
  (void)arrive(100ms, kA);
  (void)arrive(100ms, kC);
  EXPECT_TRUE(of<Formed>(step(200ms, FormAsked{{}, "a worker died"})).empty());
  EXPECT_EQ(of<Formed>(arrive(300ms, kS)).size(), 1U);
}

TEST_F(AdoptionTest, AConnectionThatClosesMeanwhileIsNoLossYet) {
  for (const auto host : {kA, kC, kS}) (void)arrive(100ms, host);
  (void)step(200ms, Closed{kC, "reset"});
  EXPECT_TRUE(of<HostLost>(until(4999ms)).empty());
  (void)step(4999ms, Stalled{1s});
  EXPECT_TRUE(of<HostLost>(until(6s)).empty()) << "a stall of our own makes it longer";
}

TEST_F(AdoptionTest, ASpareThatIsMetForTheFirstTimeIsNoNewsButRoomIsTaken) {
  Policy policy;
  policy.hosts = {{kA, "a"}, {kB, "b"}, {kC, "c"}};
  policy.hosts_min = 1;
  policy.hosts_max = 3;
  Plan plan;
  plan.generation = kGeneration;
  plan.members = {{kA, Rank{0}, 1, "10.0.0.1"}, {kC, Rank{1}, 1, "10.0.0.3"}};
  plan.world_size = 2;
  plan.seats = {kA, kB, kC};
  machine_.emplace(policy, plan, at(0ms));
  for (const auto host : {kB, kA, kC}) (void)arrive(100ms, host, host == kB ? 0 : 4);
  const auto back = of<HostReturned>(until(5s));
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].host, kB);
  EXPECT_TRUE(back[0].joins);
}

TEST_F(AdoptionTest, FaultsOfBeforeCountForTheQuarantine) {
  for (const auto ago : {30min, 20min}) {
    (void)step(0ms, HostBlamed{kB, "it was lost", false, at(0ms) - ago});
  }
  (void)step(0ms, HostBlamed{kC, "its device is broken", true, at(0ms) - 4min});
  (void)step(0ms, HostBlamed{kA, "its device was broken", true, at(0ms) - 11min});
  for (const auto host : {kA, kB, kC}) (void)arrive(100ms, host, host == kB ? 0 : 4);
  EXPECT_EQ(machine_->view(kC).state, HostState::quarantined);
  EXPECT_EQ(machine_->view(kA).state, HostState::active) << "its time is over";
  EXPECT_NE(machine_->view(kB).state, HostState::quarantined);
  (void)step(200ms, HostBlamed{kB, "it was lost again", false});
  EXPECT_EQ(machine_->view(kB).state, HostState::quarantined) << "the third within an hour";
  (void)until(6min);
  EXPECT_NE(machine_->view(kC).state, HostState::quarantined) << "ten minutes from its fault on";
}

TEST_F(AdoptionTest, AHostWhosePathWasDownStaysOutUntilTheProbersHaveComeBack) {
  (void)step(0ms, DataLinkBecame{kB, false, "the others do not reach it", true});
  for (const auto host : {kA, kC, kS}) (void)arrive(100ms, host);
  (void)arrive(100ms, kB, 0);
  EXPECT_EQ(machine_->view(kB).state, HostState::failed);
  const auto answers = [](bool b) {
    return std::vector<PathWord>{{kB, b, b ? 0ms : 10s}, {kS, true, 0ms}};
  };
  EXPECT_TRUE(of<DataPathBecame>(step(200ms, PathsReported{kA, answers(false)})).empty());
  EXPECT_TRUE(of<DataPathBecame>(step(300ms, PathsReported{kC, answers(false)})).empty())
      << "it is known";
  for (auto t = 500ms; t < 5200ms; t += 400ms) {
    (void)until(t);
    for (const auto host : {kA, kB, kC, kS}) (void)step(t, Heard{host, at(t - 10ms)});
  }
  EXPECT_TRUE(of<DataPathBecame>(until(5100ms)).empty());
  EXPECT_EQ(machine_->view(kB).state, HostState::failed) << "the probers say so, too";
  const auto said = of<DataPathBecame>(step(5200ms, PathsReported{kA, answers(true)}));
  ASSERT_EQ(said.size(), 1U) << "it fails towards one only";
  EXPECT_TRUE(said[0].up);
}

TEST_F(AdoptionTest, WhenNobodyComesBackTheStartIsCountedAnew) {
  const auto said = until(5s);
  EXPECT_EQ(of<NobodyCameBack>(said).size(), 1U);
  EXPECT_TRUE(of<HostLost>(said).empty()) << "no host is to blame";
  for (const auto host : {kA, kB, kC}) (void)arrive(6s, host, 0);
  const auto last = arrive(6s, kS, 0);
  EXPECT_EQ(of<QuorumReached>(last).size(), 1U);
  const auto formed = of<Formed>(step(6s, FormAsked{{}, "start"}));
  ASSERT_EQ(formed.size(), 1U);
  EXPECT_EQ(formed[0].plan.generation, Generation{5});
}

TEST_F(AdoptionTest, WhenNobodyComesBackTooFewHostsAreWaitedFor) {
  (void)until(5s);
  std::vector<Command> last;
  for (const auto host : {kA, kB, kC, kS}) {
    last = step(6s, LaunchFailed{host, "refused", "nobody listens"});
  }
  EXPECT_TRUE(of<QuorumImpossible>(last).empty()) << "the job has run before";
  EXPECT_EQ(of<QuorumReached>(last).size(), 1U);
  EXPECT_EQ(of<CannotForm>(step(6s, FormAsked{{}, "start"})).size(), 1U);
  (void)arrive(60s, kA, 0);
  EXPECT_EQ(of<Formed>(arrive(60s, kB, 0)).size(), 1U) << "two are the minimum";
}

}  // namespace
}  // namespace dlaunch::rendezvous
