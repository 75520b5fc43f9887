// Every rare branch that is marked in the machines is reached by some simulated world.
#include "base/probe.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "simulation/world.h"
#include "tests/simulation/telling.h"

namespace dlaunch::simulation {
namespace {

constexpr std::uint64_t kSeeds = 100;
constexpr std::size_t kProbesMin = 25;

std::set<std::string>& reached() {
  static std::set<std::string> names;
  return names;
}

/// Many faults that meet each other; programs and trainers, few and many hosts, tight budgets.
Scenario mixed(std::uint64_t seed) {
  Scenario scenario;
  scenario.hosts = 3 + static_cast<std::uint32_t>(seed % 4) * 5;
  scenario.spares = static_cast<std::uint32_t>(seed % 3);
  scenario.hosts_min = scenario.hosts - static_cast<std::uint32_t>(seed % 2);
  scenario.workers = 1 + static_cast<std::uint32_t>(seed % 2);
  scenario.program = seed % 4 == 3;
  scenario.behind_nat = seed % 3 == 1 ? 1 : 0;
  scenario.lease = scenario.program ? 10s : 60s;
  scenario.restarts = seed % 5 == 0 ? 5 : 1000;
  scenario.hang_floor = 20s;
  for (std::size_t i = 0; i < kFaults; ++i) scenario.faults.weights[static_cast<Fault>(i)] = 1;
  scenario.faults.swarm = true;
  scenario.faults.every = 20s;
  scenario.training.checkpoint_every = 30;
  scenario.duration = 1h;
  scenario.expect.codes.insert(74);  // the directory may be out of reach at the very start
  return scenario;
}

std::set<std::string> marked() {
  std::set<std::string> names;
  for (const std::string file : {PROBED_SOURCES}) {
    std::ifstream stream(std::string(DLAUNCH_SOURCE) + "/" + file);
    std::stringstream text;
    text << stream.rdbuf();
    const auto source = text.str();
    const std::string mark = "DL_PROBE(\"";
    for (auto at = source.find(mark); at != std::string::npos; at = source.find(mark, at + 1)) {
      const auto begin = at + mark.size();
      names.insert(source.substr(begin, source.find('"', begin) - begin));
    }
  }
  return names;
}

// Seeds of tight budgets whose incidents last for several generations: one that a lost host ended
// costs nothing, whatever the incident as a whole is named after. They stay for the rule S4.
TEST(Probes, EachGenerationOfAnIncidentIsCountedByItsOwnCause) {
  for (const std::uint64_t seed : {50U, 80U, 220U}) {
    const auto scenario = mixed(seed);
    ASSERT_EQ(scenario.restarts, 5U);
    const auto outcome = World(scenario, seed).run();
    EXPECT_TRUE(outcome.broken.empty()) << told(scenario, outcome);
  }
}

TEST(Probes, EveryRareBranchIsReached) {
  probe_sink = [](const char* name) { reached().insert(name); };
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto scenario = mixed(seed);
    const auto outcome = World(scenario, seed).run();
    EXPECT_TRUE(outcome.broken.empty()) << told(scenario, outcome);
  }
  probe_sink = nullptr;
  const auto names = marked();
  EXPECT_GE(names.size(), kProbesMin);
  for (const auto& name : names) EXPECT_TRUE(reached().contains(name)) << name;
}

}  // namespace
}  // namespace dlaunch::simulation
