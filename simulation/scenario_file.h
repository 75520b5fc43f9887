// scenario.toml: a simulated job, what befalls it, what must come of it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/config/problem.h"
#include "simulation/scenario.h"

namespace dlaunch::simulation {

constexpr std::size_t kScenarioBytesMax = 256 * 1024;

using ScenarioOrProblems = std::variant<Scenario, std::vector<launcher::config::Problem>>;

/// Every problem at once, with its place. `file` is for problems only. Keys: docs/simulation.md.
[[nodiscard]] ScenarioOrProblems parse_scenario(std::string_view text, const std::string& file);

}  // namespace dlaunch::simulation
