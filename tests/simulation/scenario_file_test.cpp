#include "simulation/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::simulation {
namespace {

Scenario scenario_of(std::string_view text) {
  auto parsed = parse_scenario(text, "x.toml");
  if (const auto* problems = std::get_if<std::vector<launcher::config::Problem>>(&parsed)) {
    ADD_FAILURE() << launcher::config::to_text(*problems);
    return {};
  }
  return std::get<Scenario>(std::move(parsed));
}

std::string problems_of(std::string_view text) {
  const auto parsed = parse_scenario(text, "x.toml");
  const auto* problems = std::get_if<std::vector<launcher::config::Problem>>(&parsed);
  return problems == nullptr ? "" : launcher::config::to_text(*problems);
}

TEST(ScenarioFile, SaysTheJobTheFaultsAndWhatIsExpected) {
  const auto scenario = scenario_of(R"(
name = "night"
[job]
hosts = 8
spares = 2
minimum = 6
[training]
step_time = "2 s"
[faults]
every = "1 h"
[faults.kinds]
host_crash = 3
cut_both = 1
[run]
duration = "90 days"
ending = "preempt"
[expect]
codes = [75]
[[at]]
time = "10 min"
fault = "partition"
lasts = "40 s"
)");
  EXPECT_EQ(scenario.hosts, 8U);
  EXPECT_EQ(scenario.hosts_min, 6U);
  EXPECT_EQ(scenario.training.step_time, 2s);
  EXPECT_EQ(scenario.faults.weights.at(Fault::host_crash), 3U);
  EXPECT_EQ(scenario.faults.weights.size(), 2U);
  EXPECT_EQ(scenario.duration, 90 * 24h);
  EXPECT_EQ(scenario.ending, Ending::preempt);
  EXPECT_EQ(scenario.expect.codes, (std::set<int>{75}));
  ASSERT_EQ(scenario.planned.size(), 1U);
  EXPECT_EQ(scenario.planned[0].fault, Fault::partition);
  EXPECT_EQ(scenario.planned[0].at, 10min);
}

TEST(ScenarioFile, AllMeansEveryKindAndAWeightOfZeroTakesOneOut) {
  const auto scenario = scenario_of("[faults]\nall = true\n[faults.kinds]\nsuspend = 0\n");
  EXPECT_EQ(scenario.faults.weights.size(), kFaults - 1);
  EXPECT_FALSE(scenario.faults.weights.contains(Fault::suspend));
}

TEST(ScenarioFile, AJobWithStepsFinishesUnlessItSaysOtherwise) {
  EXPECT_EQ(scenario_of("[training]\nsteps = 100\n").ending, Ending::finish);
  EXPECT_EQ(scenario_of("").ending, Ending::by_seed);
}

TEST(ScenarioFile, EveryProblemIsSaidAtOnceWithItsPlace) {
  const auto problems =
      problems_of("[job]\nhosts = 0\n[faults.kinds]\nhost_crush = 1\n[run]\nduration = \"soon\"\n");
  EXPECT_THAT(problems, testing::HasSubstr("x.toml:2:"));
  EXPECT_THAT(problems, testing::HasSubstr("host_crush"));
  EXPECT_THAT(problems, testing::HasSubstr("duration"));
}

}  // namespace
}  // namespace dlaunch::simulation
