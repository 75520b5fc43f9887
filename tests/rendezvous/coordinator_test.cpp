#include "rendezvous/coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/rendezvous/answers.h"

namespace dlaunch::rendezvous {
namespace {

constexpr HostId kA{0}, kB{1}, kC{2}, kS{3};
Instant at(milliseconds since) { return Instant{} + 1h + since; }

/// Three hosts and a spare; each call returns what the machine answered.
class CoordinatorTest : public ::testing::Test {
 protected:
  static Policy policy(std::uint32_t hosts_min) {
    Policy p;
    p.hosts = {{kA, "a"}, {kB, "b"}, {kC, "c"}, {kS, "s", true}};
    p.hosts_min = hosts_min;
    p.hosts_max = 3;
    p.successor_limit = 900ms;
    return p;
  }
  void SetUp() override { start(2); }
  void start(std::uint32_t hosts_min) {
    machine_.emplace(policy(hosts_min), Generation{0}, at(0ms));
  }
  std::vector<Command> step(milliseconds t, const Event& event) {
    return machine_->step(at(t), event);
  }
  std::vector<Command> ready(milliseconds t, HostId host, std::uint64_t agent = 1) {
    auto commands = step(t, Arrived{host, "boot", agent, Generation{0}});
    const auto more = step(t, ReadyReported{host, 2, "10.0.0." + std::to_string(host.value)});
    commands.insert(commands.end(), more.begin(), more.end());
    return commands;
  }
  void all_ready() {
    for (const auto host : {kA, kB, kC, kS}) last_ = ready(0ms, host);
  }
  Plan form(milliseconds t) {
    const auto formed = of<Formed>(step(t, FormAsked{{}, "start"}));
    EXPECT_EQ(formed.size(), 1U);
    return formed.empty() ? Plan{} : formed.front().plan;
  }
  void beat(milliseconds t, std::initializer_list<HostId> hosts) {
    for (const auto host : hosts) (void)step(t, Heard{host, at(t) - 1ms});
  }
  std::vector<Command> last_;
  std::optional<Coordinator> machine_;
};

TEST_F(CoordinatorTest, StartsOnceEveryHostIsReadyOrFailed) {
  EXPECT_TRUE(of<QuorumReached>(ready(0ms, kA)).empty());
  EXPECT_TRUE(of<QuorumReached>(ready(0ms, kB)).empty());
  EXPECT_TRUE(of<QuorumReached>(ready(0ms, kC)).empty()) << "the spare is still connecting";
  EXPECT_EQ(of<QuorumReached>(step(1ms, LaunchFailed{kS, "refused", "nobody listens"})).size(), 1U);
}

TEST_F(CoordinatorTest, ALateHostIsWaitedForUntilTheStartTimeoutOnly) {
  for (const auto host : {kA, kB, kS}) (void)ready(0ms, host);
  beat(599s + 900ms, {kA, kB, kS});
  (void)step(600s, Stalled{});
  EXPECT_EQ(of<QuorumReached>(step(600s, DeadlineDue{})).size(), 1U);
}

TEST_F(CoordinatorTest, AHostThatIsSilentForAMomentAtTheStartIsNotMissing) {
  start(3);
  (void)ready(0ms, kA);
  (void)ready(0ms, kB);
  (void)step(0ms, LaunchFailed{kS, "refused", "nobody listens"});
  beat(200ms, {kB});
  (void)step(310ms, DeadlineDue{});  // a is suspect
  const auto last = ready(320ms, kC);
  EXPECT_TRUE(of<QuorumImpossible>(last).empty()) << "a may be there";
  EXPECT_TRUE(of<QuorumReached>(last).empty());
  EXPECT_EQ(of<QuorumReached>(step(400ms, Heard{kA, at(399ms)})).size(), 1U);
}

TEST_F(CoordinatorTest, TooFewHostsByKeyOnlySaysSo) {
  start(3);
  (void)ready(0ms, kA);
  (void)step(0ms, LaunchFailed{kB, "auth_refused", "b: the key was refused"});
  (void)step(0ms, LaunchFailed{kC, "host_key_changed", "c: another host key"});
  const auto impossible =
      of<QuorumImpossible>(step(0ms, LaunchFailed{kS, "auth_refused", "s: the key was refused"}));
  ASSERT_EQ(impossible.size(), 1U);
  EXPECT_TRUE(impossible[0].all_by_key);
  EXPECT_NE(impossible[0].sentence.find("c: another host key"), std::string::npos);
}

TEST_F(CoordinatorTest, OneCauseOfAllMissingHostsDecidesAndAMixtureDoesNot) {
  const auto ended = [&](const Event& of_b, const Event& of_c) {
    start(3);
    (void)ready(0ms, kA);
    for (const auto host : {kB, kC, kS}) {
      (void)step(0ms, Arrived{host, "boot", 1, Generation{0}});
    }
    (void)step(0ms, UnfitReported{kS, true, "s: the data is not there"});
    (void)step(0ms, of_b);
    const auto said = of<QuorumImpossible>(step(0ms, of_c));
    EXPECT_EQ(said.size(), 1U);
    return said.empty()
               ? std::string()
               : std::string(said[0].by_files ? "files" : "") + (said[0].all_by_key ? "key" : "");
  };
  const UnfitReported lacks_b{kB, true, "b: the data is not there"};
  EXPECT_EQ(ended(lacks_b, UnfitReported{kC, true, "c: the data differs"}), "files");
  EXPECT_EQ(ended(lacks_b, UnfitReported{kC, false, "c: no GPU"}), "") << "hosts are missing";
}

TEST_F(CoordinatorTest, NoHostMissingIsNeitherKeysNorFiles) {
  auto strict = policy(3);
  strict.hosts = {{kA, "a"}, {kB, "b"}, {kC, "c"}};
  strict.hosts_min = strict.hosts_max = 3;
  strict.hosts_step = 2;
  machine_.emplace(strict, Generation{0}, at(0ms));
  std::vector<QuorumImpossible> said;
  for (const auto host : {kA, kB, kC}) said = of<QuorumImpossible>(ready(0ms, host));
  ASSERT_EQ(said.size(), 1U);
  EXPECT_FALSE(said[0].all_by_key);
  EXPECT_FALSE(said[0].by_files);
}

TEST_F(CoordinatorTest, AHostThatHashesItsDataIsWaitedForWhileItIsHeard) {
  for (const auto host : {kA, kB, kS}) (void)ready(0ms, host);
  (void)step(0ms, Arrived{kC, "boot", 1, Generation{0}});
  milliseconds now = 0ms;
  while (now < 120s) {
    now += 100ms;
    beat(now, {kA, kB, kC, kS});
    EXPECT_TRUE(of<QuorumReached>(step(now, DeadlineDue{})).empty());
  }
  EXPECT_EQ(machine_->view(kC).state, HostState::connecting);
  EXPECT_NE(machine_->view(kC).reason.find("the data are read"), std::string::npos);
  EXPECT_EQ(of<QuorumReached>(step(now, ReadyReported{kC, 2, "10.0.0.2"})).size(), 1U);
}

TEST_F(CoordinatorTest, RanksAreDenseInFileOrder) {
  all_ready();
  EXPECT_EQ(of<QuorumReached>(last_).size(), 1U);
  const auto plan = form(1ms);
  EXPECT_EQ(plan.generation, Generation{1});
  EXPECT_EQ(plan.world_size, 6U);
  ASSERT_EQ(plan.members.size(), 3U);
  EXPECT_EQ(plan.members[1].host, kB);
  EXPECT_EQ(plan.members[1].first_rank, Rank{2});
  EXPECT_EQ(machine_->view(kS).state, HostState::spare);
  EXPECT_EQ(machine_->view(kA).state, HostState::active);
}

TEST_F(CoordinatorTest, ASilentHostIsLostAndItsRanksGoToTheSpare) {
  all_ready();
  (void)form(0ms);
  for (auto t = 100ms; t <= 500ms; t += 100ms) beat(t, {kA, kC, kS});
  EXPECT_EQ(of<HostSuspected>(step(300ms, DeadlineDue{})).size(), 1U);
  beat(600ms, {kA, kC, kS});
  const auto commands = step(600ms, DeadlineDue{});
  ASSERT_EQ(of<HostLost>(commands).size(), 1U);
  EXPECT_EQ(of<HostLost>(commands)[0].host, kB);
  EXPECT_EQ(of<DropHost>(commands).size(), 1U);
  const auto plan = form(601ms);
  EXPECT_EQ(plan.members[1].host, kS);
  EXPECT_EQ(plan.members[1].first_rank, Rank{2});
  EXPECT_EQ(plan.replaced, (std::vector<std::pair<HostId, HostId>>{{kB, kS}}));
}

TEST_F(CoordinatorTest, AWishToFormWaitsUntilASuspectMemberIsClearedOrLost) {
  all_ready();
  (void)form(0ms);
  for (auto t = 100ms; t <= 400ms; t += 100ms) beat(t, {kA, kC, kS});
  (void)step(400ms, DeadlineDue{});
  EXPECT_TRUE(of<Formed>(step(401ms, FormAsked{{}, "worker lost"})).empty());
  const auto formed = of<Formed>(step(450ms, Heard{kB, at(449ms)}));
  ASSERT_EQ(formed.size(), 1U);
  EXPECT_EQ(formed[0].plan.members[1].host, kB);
}

TEST_F(CoordinatorTest, AKilledAgentsSuccessorKeepsTheSeat) {
  all_ready();
  (void)form(0ms);
  EXPECT_TRUE(of<HostLost>(step(10ms, Closed{kB, "reset"})).empty());
  EXPECT_TRUE(of<Formed>(step(20ms, FormAsked{{}, "peers lost it"})).empty());
  const auto gone = of<AgentGone>(step(60ms, Arrived{kB, "boot", 2, Generation{0}}));
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_TRUE(gone[0].successor);
  EXPECT_EQ(gone[0].closed_at, at(10ms));
  const auto formed = of<Formed>(step(80ms, ReadyReported{kB, 2, "10.0.0.1"}));
  ASSERT_EQ(formed.size(), 1U);
  EXPECT_EQ(formed[0].plan.members[1].host, kB);
}

TEST_F(CoordinatorTest, AnAgentWithoutSuccessorIsAHostLost) {
  all_ready();
  (void)form(0ms);
  (void)step(10ms, Closed{kB, "reset"});
  beat(850ms, {kA, kC, kS});
  EXPECT_TRUE(of<HostLost>(step(900ms, DeadlineDue{})).empty());
  const auto lost = of<HostLost>(step(910ms, DeadlineDue{}));
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].last_heard, at(10ms));
}

TEST_F(CoordinatorTest, AnAgentBehindALoginIsWaitedForAsLongAsALoginTakes) {
  all_ready();
  (void)form(0ms);
  (void)step(10ms, Closed{kB, "the SSH connection ended", false, 5s});
  beat(910ms, {kA, kC, kS});
  EXPECT_TRUE(of<HostLost>(step(910ms, DeadlineDue{})).empty());
  beat(5000ms, {kA, kC, kS});
  EXPECT_TRUE(of<HostLost>(step(5000ms, DeadlineDue{})).empty());
  const auto lost = of<HostLost>(step(5010ms, DeadlineDue{}));
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].host, kB);
}

TEST_F(CoordinatorTest, AnAgentThatLeftOnOrderIsNothingAgainstItsHost) {
  all_ready();
  (void)form(0ms);
  (void)step(10ms, Closed{kB, "the other side closed the connection", true});
  EXPECT_EQ(machine_->view(kB).reason, "");
  beat(850ms, {kA, kC, kS});
  EXPECT_TRUE(of<HostLost>(step(2s, DeadlineDue{})).empty());
}

TEST_F(CoordinatorTest, TheSameAgentOnANewConnectionIsOnlyCleared) {
  all_ready();
  (void)form(0ms);
  (void)step(10ms, Closed{kB, "reset"});
  const auto commands = step(50ms, Arrived{kB, "boot", 1, Generation{1}});
  EXPECT_TRUE(of<AgentGone>(commands).empty());
  EXPECT_EQ(of<HostCleared>(commands).size(), 1U);
  EXPECT_EQ(machine_->view(kB).state, HostState::active);
}

TEST_F(CoordinatorTest, AReturnedHostJoinsOnlyWhenItIsCleanAndThereIsRoom) {
  all_ready();
  (void)step(1ms, Closed{kS, "reset"});
  (void)form(2ms);
  for (auto t = 100ms; t <= 600ms; t += 100ms) beat(t, {kA, kC});
  (void)step(600ms, DeadlineDue{});
  (void)step(901ms, DeadlineDue{});
  beat(901ms, {kA, kC});
  EXPECT_EQ(form(902ms).members.size(), 2U);
  EXPECT_TRUE(of<HostReturned>(step(950ms, Arrived{kB, "boot", 1, Generation{1}})).empty());
  EXPECT_TRUE(of<HostReturned>(step(960ms, ReadyReported{kB, 2, "10.0.0.1"})).empty())
      << "workers of the old generation still run there";
  const auto returned = of<HostReturned>(step(970ms, HostCleaned{kB}));
  ASSERT_EQ(returned.size(), 1U);
  EXPECT_TRUE(returned[0].joins);
  EXPECT_EQ(form(980ms).members.size(), 3U);
}

TEST_F(CoordinatorTest, BelowTheMinimumItSaysWhoIsMissingAndFormsWhenOneIsBack) {
  start(3);
  all_ready();
  (void)form(0ms);
  (void)step(1ms, Closed{kB, "reset"});
  (void)step(1ms, Closed{kS, "reset"});
  beat(500ms, {kA, kC});
  beat(900ms, {kA, kC});
  (void)step(902ms, DeadlineDue{});
  const auto cannot = of<CannotForm>(step(903ms, FormAsked{{}, "b is lost"}));
  ASSERT_EQ(cannot.size(), 1U);
  EXPECT_NE(cannot[0].sentence.find("b: "), std::string::npos);
  const auto formed = of<Formed>(ready(950ms, kB, 7));
  ASSERT_EQ(formed.size(), 1U);
  EXPECT_EQ(formed[0].plan.members[1].host, kB);
}

TEST_F(CoordinatorTest, AControllerThatIsCutOffConvictsNobody) {
  all_ready();
  (void)form(0ms);
  (void)step(300ms, DeadlineDue{});
  auto commands = step(600ms, DeadlineDue{});
  EXPECT_TRUE(of<HostLost>(commands).empty());
  EXPECT_EQ(of<StillWaiting>(commands).size(), 1U);
  EXPECT_GT(machine_->next_deadline(), at(601ms)) << "and it does not spin meanwhile";
  commands = step(30'600ms, DeadlineDue{});
  EXPECT_EQ(of<HostLost>(commands).size(), 4U) << "but not for ever";
}

TEST_F(CoordinatorTest, AStallOfTheControllerClearsAllSuspicion) {
  all_ready();
  (void)form(0ms);
  beat(350ms, {kA, kC, kS});
  (void)step(350ms, DeadlineDue{});
  EXPECT_EQ(of<HostCleared>(step(5s, Stalled{4s})).size(), 1U);
  EXPECT_TRUE(of<HostLost>(step(5s, DeadlineDue{})).empty());
}

TEST_F(CoordinatorTest, AHostWithoutItsDataLinkIsFailedUntilTheLinkIsBack) {
  all_ready();
  (void)form(1ms);
  const auto down = of<HostBecame>(step(2ms, DataLinkBecame{kB, false, "eth1 is down"}));
  ASSERT_EQ(down.size(), 1U);
  EXPECT_EQ(down[0].state, HostState::failed);
  EXPECT_EQ(down[0].reason, "eth1 is down");
  EXPECT_EQ(form(3ms).members[1].host, kS) << "the spare takes its place";
  EXPECT_TRUE(of<HostReturned>(step(4ms, HostCleaned{kB})).empty());
  EXPECT_EQ(of<HostReturned>(step(5ms, DataLinkBecame{kB, true, ""})).size(), 1U);
  EXPECT_EQ(machine_->view(kB).state, HostState::spare);
}

TEST_F(CoordinatorTest, AHostThatStillHasOldWorkersIsNoSpareYet) {
  all_ready();
  (void)form(1ms);
  (void)step(2ms, Closed{kB, "reset"});
  beat(901ms, {kA, kC, kS});
  (void)step(902ms, DeadlineDue{});
  ASSERT_EQ(machine_->view(kB).state, HostState::lost);
  (void)form(903ms);
  (void)step(904ms, Arrived{kB, "boot", 1, Generation{1}});
  (void)step(905ms, ReadyReported{kB, 2, "10.0.0.1"});
  EXPECT_EQ(machine_->view(kB).state, HostState::connecting);
  EXPECT_EQ(of<HostReturned>(step(906ms, HostCleaned{kB})).size(), 1U);
  EXPECT_EQ(machine_->view(kB).state, HostState::spare);
}

TEST_F(CoordinatorTest, AFaultBeyondDoubtIsAQuarantineAtOnce) {
  all_ready();
  (void)form(1ms);
  (void)step(2ms, HostBlamed{kB, "workers crash there", true});
  EXPECT_EQ(machine_->view(kB).state, HostState::quarantined);
}

TEST_F(CoordinatorTest, TheThirdFaultWithinAnHourIsAQuarantine) {
  all_ready();
  (void)form(0ms);
  (void)step(1ms, HostBlamed{kB, "lost"});
  (void)step(2ms, HostBlamed{kB, "lost"});
  EXPECT_EQ(machine_->view(kB).state, HostState::active);
  (void)step(3ms, HostBlamed{kB, "lost"});
  EXPECT_EQ(machine_->view(kB).state, HostState::quarantined);
  EXPECT_EQ(form(4ms).members[1].host, kS);
}

TEST_F(CoordinatorTest, AMemberThatIsDrainedIsToldOfOnceAndComesBackOnRequest) {
  all_ready();
  (void)form(0ms);
  EXPECT_EQ(machine_->why_not_drain(kC), "");
  EXPECT_EQ(of<MemberDrained>(step(10ms, DrainAsked{kC})).size(), 1U);
  EXPECT_TRUE(of<MemberDrained>(step(11ms, DrainAsked{kC})).empty()) << "once is enough";
  const auto plan = form(20ms);
  ASSERT_EQ(plan.members.size(), 3U) << "the spare takes its place";
  EXPECT_EQ(plan.replaced, (std::vector<std::pair<HostId, HostId>>{{kC, kS}}));
  EXPECT_EQ(machine_->view(kC).state, HostState::drained);
  const auto returned = of<HostReturned>(step(30ms, AddAsked{kC}));
  ASSERT_EQ(returned.size(), 1U);
  EXPECT_FALSE(returned[0].joins) << "there is no room";
  EXPECT_TRUE(returned[0].asked);
}

TEST_F(CoordinatorTest, ASpareIsDrainedWithoutAWordToTheJob) {
  all_ready();
  (void)form(0ms);
  EXPECT_TRUE(of<MemberDrained>(step(10ms, DrainAsked{kS})).empty());
  EXPECT_EQ(machine_->view(kS).state, HostState::drained);
}

TEST_F(CoordinatorTest, NoHostIsDrainedBelowTheMinimum) {
  start(3);
  all_ready();
  (void)form(0ms);
  EXPECT_EQ(machine_->why_not_drain(kA), "") << "the spare could take its place";
  (void)step(10ms, DrainAsked{kS});
  EXPECT_NE(machine_->why_not_drain(kA).find("the minimum"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::rendezvous
