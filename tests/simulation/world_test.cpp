#include "simulation/world.h"

#include <gtest/gtest.h>

namespace dlaunch::simulation {
namespace {

std::string told(const Outcome& outcome) {
  std::string text = "ended with " + (outcome.code ? std::to_string(*outcome.code) : "nothing") +
                     ": " + outcome.sentence + "\n";
  for (const auto& rule : outcome.broken) text += "broken: " + rule + "\n";
  for (const auto& line : outcome.trace) text += line + "\n";
  return text;
}

TEST(World, AnUndisturbedJobFinishesInOneGeneration) {
  Scenario scenario;
  const auto outcome = World(scenario).run();
  EXPECT_EQ(outcome.code, 0) << told(outcome);
  EXPECT_EQ(outcome.generations, 1U);
  EXPECT_EQ(outcome.incidents, 0U);
  EXPECT_EQ(outcome.committed_step, scenario.training.steps);
  EXPECT_TRUE(outcome.broken.empty()) << told(outcome);
}

TEST(World, TheSameSeedGivesTheSameTrace) {
  Scenario scenario;
  scenario.faults = 10;
  scenario.training.steps = 2000;
  const auto first = World(scenario).run();
  const auto second = World(scenario).run();
  EXPECT_EQ(first.trace_hash, second.trace_hash);
  EXPECT_EQ(first.events, second.events);
  scenario.seed = 2;
  EXPECT_NE(World(scenario).run().trace_hash, first.trace_hash);
}

TEST(World, SixtyFourAgentsSurviveCrashesAndLoss) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario scenario;
    scenario.seed = seed;
    scenario.hosts = 60;
    scenario.spares = 4;
    scenario.hosts_min = 40;
    scenario.faults = 20;
    scenario.training.steps = 4000;
    const auto outcome = World(scenario).run();
    EXPECT_EQ(outcome.code, 0) << "seed " << seed << "\n" << told(outcome);
    EXPECT_TRUE(outcome.broken.empty()) << "seed " << seed << "\n" << told(outcome);
    EXPECT_GT(outcome.incidents, 0U) << "seed " << seed;
    EXPECT_EQ(outcome.committed_step, scenario.training.steps);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace dlaunch::simulation
