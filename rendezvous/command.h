// What the coordinator answers. Every answer carries its reason as a sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::rendezvous {

enum class HostState {
  connecting,
  ready,
  active,
  spare,
  suspect,
  lost,
  quarantined,
  drained,
  failed
};
[[nodiscard]] const char* to_string(HostState state);

struct Member {
  HostId host;
  Rank first_rank;
  std::uint32_t workers = 1;
  std::string data_address;
};
/// Ranks are dense and follow file order; a spare takes the ranks of the host it replaces.
struct Plan {
  Generation generation;
  std::vector<Member> members;  ///< by first_rank
  std::uint32_t world_size = 0;
  std::vector<std::pair<HostId, HostId>> replaced;  ///< (lost, replacement), for the incident
  std::vector<HostId> seats;  ///< of the full-sized job, also where the holder is away
};

struct HostBecame {
  HostId host;
  HostState state;
  std::string reason;
};
struct HostSuspected {
  HostId host;
  std::string sentence;
};
struct HostCleared {
  HostId host;
};
/// Probes of other agents: a host that is heard fails towards two or more others, or no more.
struct DataPathBecame {
  HostId host;
  bool up = true;
  Instant since;  ///< down: since when
  std::string sentence;
};
/// Convicted: silent for longer than lost_after. The connection is to be closed (`DropHost`).
struct HostLost {
  HostId host;
  Instant last_heard;
  std::string sentence;
};
/// The connection closed and no successor said hello in time, or a successor came (`replaced_by`).
struct AgentGone {
  HostId host;
  Instant closed_at;
  bool successor = false;  ///< a new agent process of the same boot is here
};
/// A host that was lost, failed or drained is back and fit: a spare, or room for it in the job.
struct HostReturned {
  HostId host;
  bool joins = false;  ///< the job has room: worth a new generation at a step boundary
  bool asked = false;  ///< let in by the user, who wants it now
};
/// The user takes a member out: the job goes on without it from the next step boundary on.
struct MemberDrained {
  HostId host;
};
struct DropHost {
  HostId host;
  std::string reason;
};
/// The start can begin (every host ready or failed, or enough at start_timeout).
struct QuorumReached {
  std::string sentence;
};
/// Fewer than hosts_min can be had; `sentence` names each missing host and its cause.
struct QuorumImpossible {
  std::string sentence;
  bool all_by_key = false;  ///< every missing host failed by key or host key: exit 77
  bool by_files = false;    ///< a host lacks a file or has another one: exit 65
};
/// No member of the adopted generation said hello: the start is counted anew, as the first one was.
struct NobodyCameBack {
  std::string sentence;
};
/// Every few seconds while waiting: who is missing and why.
struct StillWaiting {
  std::string sentence;
};
/// Answers FormAsked.
struct Formed {
  Plan plan;
  std::string reason;
};
/// Answers FormAsked when below the minimum; Formed or CannotForm follows when it changes.
struct CannotForm {
  std::string sentence;
};

using Command = std::variant<HostBecame, HostSuspected, HostCleared, DataPathBecame, HostLost,
                             AgentGone, HostReturned, MemberDrained, DropHost, QuorumReached,
                             QuorumImpossible, NobodyCameBack, StillWaiting, Formed, CannotForm>;

}  // namespace dlaunch::rendezvous
