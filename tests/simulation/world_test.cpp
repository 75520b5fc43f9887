#include "simulation/world.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace dlaunch::simulation {
namespace {

std::string told(const Outcome& outcome) {
  std::string text = "seed " + std::to_string(outcome.seed) + " ended with " +
                     (outcome.code ? std::to_string(*outcome.code) : "nothing") + ": " +
                     outcome.sentence + "\n";
  for (const auto& rule : outcome.broken) text += "broken: " + rule + "\n";
  for (const auto& line : outcome.trace) text += line + "\n";
  return text;
}

TEST(World, AnUndisturbedJobFinishesInOneGeneration) {
  Scenario scenario;
  scenario.training.steps = 1000;
  scenario.ending = Ending::finish;
  scenario.duration = 10min;
  const auto outcome = World(scenario, 1).run();
  EXPECT_EQ(outcome.code, 0) << told(outcome);
  EXPECT_EQ(outcome.generations, 1U);
  EXPECT_TRUE(outcome.incidents.empty());
  EXPECT_EQ(outcome.steps, scenario.training.steps);
  EXPECT_TRUE(outcome.broken.empty()) << told(outcome);
}

}  // namespace
}  // namespace dlaunch::simulation
