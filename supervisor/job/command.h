// What the job machine answers. The controller carries it out and reports where an event is named.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::job {

enum class JobState { starting, running, recovering, waiting, stopping, finished, stopped, failed };
[[nodiscard]] const char* to_string(JobState state);

/// The same body to each of `hosts`, in this generation. Serialised once.
struct Send {
  std::vector<HostId> hosts;
  Generation generation;
  protocol::ControllerFrame body;  ///< only the oneof is filled
};
/// Answered by FromCoordinator{Formed or CannotForm}.
struct Form {
  std::set<HostId> without;
  std::string reason;
};
/// Tells the coordinator: this host is clean of our workers / this was the host's own fault.
struct CleanedHost {
  HostId host;
};
struct BlamedHost {
  HostId host;
  std::string reason;
  bool beyond_doubt = false;
};
/// Tells the coordinator that the host cannot or can be reached by the others' workers.
struct DataLinkJudged {
  HostId host;
  bool up = true;
  std::string sentence;
  bool probed = false;  ///< what the coordinator says of its path is why
};
/// To disk before what rests on it; answered by Journaled{ticket} or JournalFailed.
struct Journal {
  std::uint64_t ticket = 0;
  std::string kind;  ///< "generation", "committing", "committed", "state", …
  std::string json;
};
/// For `dlaunch events`: everything that happened, one line each. Names: docs/states.md.
struct Record {
  std::string event;
  Generation generation;
  std::optional<HostId> host;
  std::optional<Rank> rank;
  std::optional<Step> step;
  std::string detail;
};
/// The incident's present content; sent again whenever it changes (same id).
struct Phases {
  double detect = 0, abort = 0, replace = 0, regroup = 0, restore = 0, first_step = 0, total = 0;
};
struct Incident {
  std::uint64_t id = 0;
  std::string cause;  ///< docs/states.md
  /// What ended the newest of its generations: by this a restart is free or spends one.
  std::string newest_cause;
  std::optional<HostId> host;
  std::optional<Rank> rank;
  std::string verdict;    ///< ride_out, restart_workers, replace_host, shrink, wait, stop
  Generation generation;  ///< the one that broke
  std::string sentence;
  std::vector<std::string> last_lines;
  std::uint64_t lost_steps = 0;
  bool exact = true;
  bool closed = false;  ///< first_step was seen or the job ended
  Phases seconds;
};
struct IncidentChanged {
  Incident incident;
};
struct StateBecame {
  JobState state;
  std::string reason;
};
/// Once; `code` is one of docs/exit_codes.md. The controller then makes every agent leave.
struct Finish {
  int code = 0;
  JobState state;  ///< finished, stopped or failed
  std::string sentence;
};

using Command = std::variant<Send, Form, CleanedHost, BlamedHost, DataLinkJudged, Journal, Record,
                             IncidentChanged, StateBecame, Finish>;

}  // namespace dlaunch::supervisor::job
