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

/// Micro-batches of a step when train.toml does not say: 8, or the next power of two that gives
/// each of `ranks_max` ranks one.
[[nodiscard]] std::uint32_t default_logical_batches(std::uint64_t ranks_max);

}  // namespace dlaunch::launcher::controller
