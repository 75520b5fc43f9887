// The setting of a simulated job: what setting.cpp of the controller makes from the user's files.
#pragma once

#include "launcher/controller/controller.h"
#include "simulation/scenario.h"

namespace dlaunch::simulation {

constexpr const char* kJobId = "simulated-20260101-000000-0000";

[[nodiscard]] launcher::controller::Setting make_setting(const Scenario& scenario);
[[nodiscard]] nanoseconds heartbeat_of(const Scenario& scenario);

}  // namespace dlaunch::simulation
