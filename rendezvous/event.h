// What happens to the coordinator. One writer: the controller that owns it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::rendezvous {

/// The launch gave a host up for now; `retried`: it is dialled again later by itself.
struct LaunchFailed {
  HostId host;
  std::string cause;
  std::string sentence;
};
/// A Hello that passed authentication; a new `agent` or `boot_id` means the old processes are gone.
struct Arrived {
  HostId host;
  std::string boot_id;
  std::uint64_t agent = 0;
  /// Highest generation of which workers still run there; 0: none.
  Generation running{};
  std::string relayed_by{};  ///< host whose agent passes its bytes on; empty: it dialled directly
  /// Newest that was ordered there, perhaps by a controller that did not live to write it down.
  Generation ordered{};
};
struct ReadyReported {
  HostId host;
  std::uint32_t workers = 1;
  std::string data_address;
};
struct UnfitReported {
  HostId host;
  bool by_files = false;  ///< a file that the job needs is missing there or differs
  std::string sentence;
};
/// A frame came whose acknowledged frame of ours was sent at `acknowledged_sent_at`.
struct Heard {
  HostId host;
  std::optional<Instant> acknowledged_sent_at;
};
/// The heartbeats of an undisturbed stretch at once: frames and acknowledgements of the host have
/// come, or will come, up to just `until`. Said again, it replaces what was said before.
struct QuietUntil {
  HostId host;
  Instant until;
};
/// The connection closed: the agent process is gone or replaced it; not silence.
struct Closed {
  HostId host;
  std::string reason;
  bool ordered = false;    ///< its agent left because it was told to: nothing against the host
  nanoseconds patience{};  ///< another connection may take so long, if that is longer than usual
};
/// One agent's word on the data path of a host that it probes.
struct PathWord {
  HostId host;
  bool answers = true;
  nanoseconds silent{};  ///< since its last answer
};
/// All that an agent knows of those it probes; replaces what it said before.
struct PathsReported {
  HostId prober;
  std::vector<PathWord> words;
};
/// The controller itself did not run for `gap`.
struct Stalled {
  nanoseconds gap{};
};
/// The job wants the next generation. Members that are still fit keep their ranks where they can.
struct FormAsked {
  std::set<HostId> without;  ///< hosts not to be used this time (drained, failed, being dealt with)
  std::string reason;
};
/// All workers of this host are gone and it may be used as a spare or be let in again.
struct HostCleaned {
  HostId host;
};
/// The host's own fault, counted for the quarantine.
struct HostBlamed {
  HostId host;
  std::string reason;
  bool beyond_doubt = false;    ///< quarantined at once
  std::optional<Instant> at{};  ///< known from an earlier incarnation; else now
};
/// Its link to the other hosts' data network: without it a host that is heard is of no use.
struct DataLinkBecame {
  HostId host;
  bool up = true;
  std::string sentence;
  bool probed = false;  ///< down: by what DataPathBecame says of it, perhaps to a controller before
};
struct DrainAsked {
  HostId host;
};
struct AddAsked {
  HostId host;
};
struct DeadlineDue {};

using Event = std::variant<LaunchFailed, Arrived, ReadyReported, UnfitReported, Heard, QuietUntil,
                           Closed, PathsReported, Stalled, FormAsked, HostCleaned, HostBlamed,
                           DataLinkBecame, DrainAsked, AddAsked, DeadlineDue>;

}  // namespace dlaunch::rendezvous
