// What an earlier incarnation of the controller left in the journal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "rendezvous/command.h"
#include "supervisor/job/incident_book.h"
#include "supervisor/job/user_error.h"

namespace dlaunch::supervisor::job {

/// What is counted over generations, as of the beginning of the newest one.
struct Counted {
  std::optional<Instant> began;        ///< the job
  std::uint64_t incidents_before = 0;  ///< of those that are numbered, before it began
  std::vector<Instant> restarts;       ///< spent, oldest first
  std::uint32_t without_progress = 0;
  std::uint32_t free_retries = 0;
  std::optional<ProgramEnd> last_end;  ///< for the rule of the user's error
  std::vector<std::pair<Instant, HostId>> crashes;
  std::optional<std::set<std::string>> fingerprints;  ///< of the first generation
};
/// A fault that was a host's own.
struct Blame {
  HostId host;
  Generation generation;  ///< that broke by it
  Instant at;
  bool beyond_doubt = false;
  std::string reason;
};
/// A data link that its host was given up for.
struct BrokenLink {
  HostId host;
  std::string link;
  Instant since;
  std::string sentence;
};

struct Recovered {
  Generation last_generation{};
  std::optional<rendezvous::Plan> plan;  ///< of the last generation, whose agents may live
  /// What it goes on from; set once it was decided.
  struct Restoring {
    std::optional<Step> step;
    std::optional<std::uint32_t> logical_batches;
  };
  std::optional<Restoring> restoring;
  std::optional<std::uint32_t> logical_batches;  ///< the newest that were chosen
  std::optional<Instant> went;                   ///< its workers were told to go
  std::uint32_t master_port = 0;                 ///< of its program
  bool advanced = false;                         ///< it did a step
  bool progressed = false;                       ///< it did a step that none had done before
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
  std::optional<Instant> committed_at;  ///< the newest of this generation
  nanoseconds save_cost{};              ///< of the newest
  std::set<HostId> drained;             ///< by the user
  std::set<HostId> over_ssh;            ///< whose frames came that way: they cannot dial
  std::vector<Blame> blames;            ///< oldest first
  std::vector<BrokenLink> broken_links;
  std::optional<Instant> wait_until;  ///< for hosts, below the minimum
  std::map<HostId, Instant> unsure;   ///< lost hosts: programs there are surely gone by then
  std::optional<Step> best_step;      ///< highest step ever completed
  Counted counted;
  std::uint64_t incidents = 0;
};

/// Where the clock is another one (the machine has booted since) its instants mean nothing: what is
/// spent counts as spent `now`, what would only be over sooner or later is forgotten.
[[nodiscard]] Recovered on_this_clock(Recovered recovered, Instant now);

}  // namespace dlaunch::supervisor::job
