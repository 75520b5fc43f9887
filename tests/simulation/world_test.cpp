#include "simulation/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/simulation/telling.h"

namespace dlaunch::simulation {
namespace {

/// Faults that lie well off the thresholds of the machines, so that it does not matter where
/// within its interval a heartbeat falls.
Scenario one_of_each() {
  Scenario scenario;
  scenario.hosts = 6;
  scenario.spares = 2;
  scenario.hosts_min = 4;
  scenario.training.step_time = 200ms;
  scenario.training.checkpoint_every = 100;
  scenario.duration = 12min;
  scenario.hang_floor = 10s;
  scenario.ending = Ending::stop;
  scenario.keep_decisions = true;
  scenario.link_delay_min = scenario.link_delay_max = 1ms;
  scenario.planned = {
      {60s, Fault::worker_crash, 1, 1s},      {120s, Fault::cut_both, 2, 3s},
      {180s, Fault::host_crash, 3, 4s},       {240s, Fault::agent_kill, 0, 1s},
      {300s, Fault::cut_to_host, 4, 2s},      {360s, Fault::worker_hang, 1, 1s},
      {420s, Fault::partition, 0, 2s},        {480s, Fault::controller_stall, 0, 9s},
      {540s, Fault::connection_reset, 5, 1s}, {600s, Fault::disk_full, 0, 5s},
      {603s, Fault::out_of_memory, 2, 1s},    {660s, Fault::data_link_down, 4, 4s},
  };
  return scenario;
}

/// What a heartbeat tells may come a moment earlier or later; what is decided may not. One a line.
/// Whoever tries another connection just before the old one is heard again says once more that it
/// is suspected, cleared and ready: that is chance.
std::string decided(const Outcome& outcome) {
  std::vector<std::string> lines;
  std::set<std::string> said;
  for (const auto& line : outcome.decisions) {
    if (line.starts_with("parked") || line.starts_with("worker_started")) continue;
    if (line.starts_with("host_ready") && !line.ends_with(" g0")) continue;
    const bool suspicion = line.starts_with("host_suspected") || line.starts_with("host_cleared");
    if (!suspicion || said.insert(line).second) lines.push_back(line);
  }
  const auto event_of = [](const std::string& line) { return line.substr(0, line.find(' ')); };
  std::string decisions;
  for (auto begin = lines.begin(); begin != lines.end();) {
    const auto end = std::find_if(begin, lines.end(), [&](const std::string& line) {
      return event_of(line) != event_of(*begin);
    });
    std::sort(begin, end);  // many hosts fall silent at once, in whichever order they beat
    for (; begin != end; ++begin) decisions += *begin + "\n";
  }
  return decisions;
}

/// Two minutes, one fault, and nothing must come of it.
Outcome of_one(PlannedFault fault) {
  Scenario scenario;
  scenario.hosts = scenario.hosts_min = 6;
  scenario.spares = 2;
  scenario.duration = 2min;
  scenario.ending = Ending::stop;
  scenario.planned = {fault};
  return World(scenario, 1).run();
}

TEST(World, AHostWhoseControlPathAloneIsCutCostsNoStep) {
  for (const auto cut : {Fault::cut_both, Fault::cut_to_controller}) {
    const auto outcome = of_one({40s, cut, 1, 20s});
    EXPECT_TRUE(outcome.broken.empty());
    EXPECT_EQ(outcome.generations, 1U) << name_of(cut);
    EXPECT_TRUE(outcome.incidents.empty()) << name_of(cut);
  }
}

TEST(World, WhereTheAgentThatRelaysDiesAnotherOneRelays) {
  Scenario scenario;
  scenario.hosts = scenario.hosts_min = 6;
  scenario.spares = 2;
  scenario.duration = 2min;
  scenario.ending = Ending::stop;
  scenario.keep_decisions = true;
  scenario.planned = {{40s, Fault::relay_lost, 1, 30s}};
  const auto outcome = World(scenario, 1).run();
  EXPECT_TRUE(outcome.broken.empty()) << told(scenario, outcome);
  const std::map<std::string, std::uint64_t> only = {{"agent_lost", 1}};
  EXPECT_EQ(outcome.incidents, only) << "of the relay; the host that is cut off is not lost";
  // Silent; relayed; silent, because nobody relays; relayed by another one.
  const auto suspected =
      std::count_if(outcome.decisions.begin(), outcome.decisions.end(),
                    [](const std::string& line) { return line.starts_with("host_suspected h1 "); });
  EXPECT_GE(suspected, 2);
}

/// Its last host cannot dial back, so that its control runs over SSH.
Outcome behind_nat(std::vector<PlannedFault> planned) {
  Scenario scenario;
  scenario.hosts = scenario.hosts_min = 4;
  scenario.spares = 1;
  scenario.behind_nat = 1;
  scenario.duration = 3min;
  scenario.ending = Ending::stop;
  scenario.planned = std::move(planned);
  return World(scenario, 1).run();
}

TEST(World, AHostThatCannotDialBackLosesNoStepWithItsTunnel) {
  const auto outcome = behind_nat({{60s, Fault::tunnel_lost, 3, 1s}});
  EXPECT_EQ(outcome.faults.count(Fault::tunnel_lost), 1U);
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_EQ(outcome.generations, 1U);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(World, WhileSshIsRefusedAnotherHostRelaysForOneThatLostItsTunnel) {
  const auto outcome =
      behind_nat({{59s, Fault::ssh_refused, 0, 10s}, {60s, Fault::tunnel_lost, 3, 1s}});
  EXPECT_EQ(outcome.faults.count(Fault::tunnel_lost), 1U);
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_EQ(outcome.generations, 1U);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(World, AControllerThatIsStartedAgainFindsAHostThatCannotDialBack) {
  const auto outcome = behind_nat({{60s, Fault::controller_kill, 0, 1s}});
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_EQ(outcome.generations, 1U);
  EXPECT_TRUE(outcome.incidents.empty());
}

TEST(World, APairOfHostsThatDoNotReachEachOtherConvictsNeither) {
  const auto outcome = of_one({40s, Fault::data_pair_cut, 1, 30s});
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_EQ(outcome.generations, 1U);
}

TEST(World, AHostThatOthersDoNotReachIsLeftOutAfterTheWindow) {
  const auto short_one = of_one({40s, Fault::data_cut, 1, 300ms});
  EXPECT_EQ(short_one.generations, 1U);
  const auto outcome = of_one({40s, Fault::data_cut, 1, 30s});
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_EQ(outcome.generations, 2U) << "a spare takes its place";
  EXPECT_EQ(outcome.incidents.count("link_down"), 1U);
}

TEST(World, AHostThatNeitherPathReachesIsLost) {
  const auto outcome = of_one({40s, Fault::isolated, 1, 30s});
  EXPECT_TRUE(outcome.broken.empty());
  EXPECT_EQ(outcome.generations, 2U) << "a spare takes its place";
  EXPECT_EQ(outcome.incidents.count("host_lost"), 1U);
}

TEST(World, AnUndisturbedJobFinishesInOneGeneration) {
  Scenario scenario;
  scenario.training.steps = 1000;
  scenario.ending = Ending::finish;
  scenario.duration = 10min;
  const auto outcome = World(scenario, 1).run();
  EXPECT_EQ(outcome.code, 0) << told(scenario, outcome);
  EXPECT_EQ(outcome.generations, 1U);
  EXPECT_TRUE(outcome.incidents.empty());
  EXPECT_EQ(outcome.steps, scenario.training.steps);
  EXPECT_TRUE(outcome.broken.empty()) << told(scenario, outcome);
}

TEST(World, TheSameSeedGivesTheSameRun) {
  const auto scenario = one_of_each();
  const auto first = World(scenario, 1).run();
  const auto second = World(scenario, 1).run();
  EXPECT_EQ(first.hash, second.hash);
  EXPECT_EQ(first.events, second.events);
  EXPECT_NE(World(scenario, 2).run().hash, first.hash);
}

TEST(World, CreditedHeartbeatsGiveTheSameDecisionsAsSingleOnes) {
  auto scenario = one_of_each();
  const auto credited = World(scenario, 3).run();
  scenario.single_beats = true;
  const auto single = World(scenario, 3).run();
  EXPECT_TRUE(credited.broken.empty()) << told(scenario, credited);
  EXPECT_TRUE(single.broken.empty()) << told(scenario, single);
  EXPECT_EQ(decided(credited), decided(single));
  EXPECT_GT(credited.decisions.size(), 100U);
  EXPECT_GT(single.events, 20 * credited.events) << "what is credited is not sent";
}

}  // namespace
}  // namespace dlaunch::simulation
