// What the coordinator knows of each host, and the words for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "rendezvous/command.h"
#include "rendezvous/policy.h"
#include "rendezvous/seats.h"

namespace dlaunch::rendezvous {

struct Host {
  HostEntry entry;
  HostState state = HostState::connecting;
  std::string reason = "not connected yet";
  std::string cause;  ///< of the launch failure, machine-readable
  std::string boot_id;
  std::uint64_t agent = 0;  ///< 0: none has said hello
  bool connected = false;
  std::optional<Instant> ready_due;  ///< connected, self-checks not reported yet
  bool fit = false;
  bool by_files = false;
  bool clean = true;    ///< no workers of an older generation there
  bool member = false;  ///< of the newest generation
  bool drained = false;
  bool lost = false;
  bool link_down = false;  ///< its data link, while it is heard
  std::string relayed_by;  ///< the host that passes its bytes on; empty: it is connected directly
  Instant heard_since;     ///< without a silence in between
  std::uint32_t workers = 1;
  std::string data_address;
  std::optional<Instant> closed_at;  ///< waiting for the agent or its successor
  nanoseconds patience{};            ///< for so long at least
  std::optional<Instant> quarantined_until;
};

using Roster = std::map<HostId, Host>;

/// Can take part in the next generation.
[[nodiscard]] bool is_eligible(const Host& host);
/// A member of which it will be known soon whether it can take part.
[[nodiscard]] bool is_undecided(const Host& host, bool member, bool suspect);
/// Neither ready nor given up.
[[nodiscard]] bool is_pending(const Host& host);
/// The state that status shows.
[[nodiscard]] HostState judge_state(const Host& host, bool suspect, bool seated);
/// "gpu03: no route to host; gpu04: its agent is gone" for all hosts that cannot take part.
[[nodiscard]] std::string say_missing(const Roster& roster);
[[nodiscard]] std::string say_relayed(const std::string& by);
/// "4 of 4 hosts are ready, 1 spare"
[[nodiscard]] std::string say_ready(const Roster& roster, const Policy& policy);

/// Dense ranks in seat order.
[[nodiscard]] Plan make_plan(Generation generation, const Seats::Seating& seating,
                             const Roster& roster);

/// Why the start cannot begin: every missing host with its cause, and what kind of cause it is.
[[nodiscard]] QuorumImpossible say_impossible(const Roster& roster, const Policy& policy);

}  // namespace dlaunch::rendezvous
