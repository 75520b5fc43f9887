// Many seeds of whole clusters: every rule holds, every kind of fault is reached.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "simulation/scenario_file.h"
#include "simulation/world.h"
#include "tests/simulation/telling.h"

namespace dlaunch::simulation {
namespace {

constexpr std::uint64_t kFaultsMin = 20;       // each seed
constexpr std::uint64_t kTwiceEach = 10;       // one of so many seeds runs twice
constexpr std::uint64_t kNeverBeganEach = 25;  // at most one of so many

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

Scenario read(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  auto parsed = parse_scenario(text.str(), file);
  if (const auto* problems = std::get_if<std::vector<launcher::config::Problem>>(&parsed)) {
    ADD_FAILURE() << launcher::config::to_text(*problems);
    return {};
  }
  return std::get<Scenario>(std::move(parsed));
}

/// CMakeLists.txt names the file and the seeds of each test.
TEST(Swarm, EverySeedKeepsTheRulesAndRecovers) {
  const std::string file =
      std::getenv("SCENARIO") == nullptr ? "swarm.toml" : std::getenv("SCENARIO");
  const auto scenario = read(std::string(DLAUNCH_SCENARIOS) + "/" + file);
  const auto first = from_environment("FIRST_SEED", 1);
  const auto seeds = from_environment("SEEDS", 2);
  std::map<Fault, std::uint64_t> reached;
  std::uint64_t never_began = 0;
  for (auto seed = first; seed < first + seeds; ++seed) {
    const auto outcome = World(scenario, seed).run();
    ASSERT_TRUE(outcome.broken.empty())
        << told(scenario, outcome, "tests/simulation/scenarios/" + file);
    // Its hosts, or its checkpoint directory, could not be had at the very start, and it said so.
    const bool no_start = outcome.generations == 0 || outcome.code == 74;
    if (no_start && ++never_began * kNeverBeganEach <= seeds) continue;
    EXPECT_GE(outcome.fault_count(), kFaultsMin) << "seed " << seed;
    EXPECT_GE(outcome.simulated_seconds, 3600) << "seed " << seed;
    for (const auto& [fault, times] : outcome.faults) reached[fault] += times;
    if (seed % kTwiceEach == 0) {
      EXPECT_EQ(World(scenario, seed).run().hash, outcome.hash) << "seed " << seed;
    }
  }
  if (from_environment("ALL_FAULTS", 0) == 0) return;
  for (const auto& [fault, weight] : scenario.faults.weights) {
    EXPECT_GT(reached[fault], 0U) << "no seed has met " << name_of(fault);
  }
}

}  // namespace
}  // namespace dlaunch::simulation
