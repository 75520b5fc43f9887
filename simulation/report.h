// What a run of scenarios is summed up to, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "simulation/outcome.h"
#include "simulation/scenario.h"

namespace dlaunch::simulation {

/// One line per seed, fixed columns.
[[nodiscard]] std::string line_of(const Outcome& outcome);
[[nodiscard]] std::string head_of_lines();
/// Of all seeds.
[[nodiscard]] std::string summary_of(const Scenario& scenario,
                                     const std::vector<Outcome>& outcomes);
/// A rule that did not hold: which, in which seed, what was seen last, how to see it again.
[[nodiscard]] std::string failure_of(const Scenario& scenario, const std::string& file,
                                     const Outcome& outcome);
/// One object: scenario, seeds, totals.
[[nodiscard]] std::string json_of(const Scenario& scenario, const std::vector<Outcome>& outcomes);

}  // namespace dlaunch::simulation
