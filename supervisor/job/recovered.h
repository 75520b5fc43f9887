// What an earlier incarnation of the controller left in the journal.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "rendezvous/command.h"
#include "supervisor/job/incident_book.h"

namespace dlaunch::supervisor::job {

struct Recovered {
  Generation last_generation{};
  std::optional<rendezvous::Plan> plan;  ///< of the last generation, whose agents may live
  /// What it goes on from; set once it was decided.
  struct Restoring {
    std::optional<Step> step;
    std::optional<std::uint32_t> logical_batches;
  };
  std::optional<Restoring> restoring;
  bool ran = false;         ///< its workers were told to go
  bool progressed = false;  ///< it did a step that none had done before
  struct Broken {
    std::string reason;
    bool planned = false;  ///< by a person's wish, so that there is no incident
  };
  std::optional<Broken> broken;  ///< it was ended
  std::optional<OpenIncident> incident;
  bool same_clock = true;  ///< of the machine, since the earlier incarnation
  struct Stopping {
    std::string reason;
    bool preempted = false;
  };
  std::optional<Stopping> stopping;
  struct Ended {
    int code = 0;
    std::string state;
    std::string sentence;
  };
  std::optional<Ended> ended;  ///< the job is over, its agents may not know it yet
  bool inspected = false;      ///< the checkpoint directory was looked at, and may be used
  std::vector<Step> disk_steps;
  std::vector<protocol::Commit> committing;  ///< decided in this generation, perhaps carried out
  std::vector<Step> damaged_steps;
  std::set<HostId> drained;       ///< by the user
  std::optional<Step> best_step;  ///< highest step ever completed
  std::uint32_t restarts_spent = 0;
  std::uint32_t without_progress = 0;
  std::uint32_t free_retries = 0;
  std::uint64_t incidents = 0;
};

}  // namespace dlaunch::supervisor::job
