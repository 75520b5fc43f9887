// What a failing test of a simulated world says: the seed, the rules, the newest lines.
#pragma once

#include <string>

#include "simulation/report.h"

namespace dlaunch::simulation {

inline std::string told(const Scenario& scenario, const Outcome& outcome,
                        const std::string& file = "tests/simulation/scenarios/NAME.toml") {
  return failure_of(scenario, file, outcome) + "it ended with " +
         (outcome.code ? std::to_string(*outcome.code) : "nothing") + ": " + outcome.sentence;
}

}  // namespace dlaunch::simulation
