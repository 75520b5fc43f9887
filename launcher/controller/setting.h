// From the user's files to what the machines are told: every "auto" is resolved here.
#pragma once

#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "launcher/controller/controller.h"
#include "launcher/controller/job_input.h"
#include "supervisor/job/policy.h"

namespace dlaunch::launcher::controller {

/// What the hands found out about this machine.
struct Surroundings {
  Incarnation incarnation;
  supervisor::job::Recovered recovered;
  /// [program]: command[0] as a path, found through the inherited PATH where it is a bare name;
  /// empty: not found here.
  std::string program_path;
  bool resumed = false;  ///< the job had ended: no agent finds its way back by itself
};

/// An error is the user's: hosts and files do not fit together.
[[nodiscard]] Result<Setting> make_setting(const JobInput& input, const JobFiles& files,
                                           Surroundings surroundings);

}  // namespace dlaunch::launcher::controller
