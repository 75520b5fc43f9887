// What the job machine is told once, at the start.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::supervisor::job {

/// How often a checkpoint is written.
struct EveryAuto {};
struct EverySteps {
  std::uint64_t steps = 0;
};
struct EveryTime {
  nanoseconds interval{};
};
using CheckpointEvery = std::variant<EveryAuto, EverySteps, EveryTime>;

struct Policy {
  std::string job_id;
  std::string job_name;
  bool trainer = true;           ///< else any other program
  std::uint64_t steps = 0;       ///< [trainer] only
  std::string trainer_settings;  ///< JSON, compared with a checkpoint's `config`
  /// The least that each rank of the largest job has one of; 0: trainer_settings says how many.
  std::uint32_t logical_batches_min = 0;
  std::string checkpoint_directory;  ///< empty: the program keeps its own
  CheckpointEvery every = EveryAuto{};
  std::uint32_t keep = 3;
  bool fresh = false;  ///< --fresh: the directory must be empty
  std::uint32_t process_restarts_max = 10;
  nanoseconds restarts_window = 1h;
  std::uint32_t no_progress_generations = 3;
  nanoseconds wait_for_host = 30min;
  nanoseconds stop_grace = 30s;
  nanoseconds lease = 60s;
  nanoseconds abort_deadline = 10s;
  nanoseconds readmit = 5s;  ///< after a restart of the controller agents have so long to come back
  nanoseconds hang_floor = 60s;
  nanoseconds start_limit = 30min;
  nanoseconds checkpoint_limit = 30min;
  nanoseconds link_window = 1s;      ///< a data link may be down so long
  bool has_steps = true;             ///< some source of steps, so that a hang can be seen
  nanoseconds cause_window = 300ms;  ///< the cause is chosen this long after the first evidence
  std::map<HostId, std::string> host_names;
};

}  // namespace dlaunch::supervisor::job
