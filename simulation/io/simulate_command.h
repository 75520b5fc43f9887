// `dlaunch simulate`: runs a scenario file and says what came of it.
#pragma once

#include "launcher/cli/options.h"

namespace dlaunch::simulation {

/// 0: every rule held and what the scenario expects came; 1: not; 65: the file is wrong.
[[nodiscard]] int simulate(const launcher::cli::SimulateOptions& options);

}  // namespace dlaunch::simulation
