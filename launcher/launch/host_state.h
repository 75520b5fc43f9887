// Where one host's launch stands. Each state holds just what it needs; `due` is its deadline.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::launcher::launch {

struct HostEntry {
  HostId id;
  std::string name;      ///< for sentences
  std::string endpoint;  ///< the SSH server that is dialled (the jump host, if any); local: unique
};

/// Nothing was asked yet.
struct Idle {};
/// To be dialled as soon as the endpoint and the planter have room.
struct WaitingTurn {
  std::optional<Instant> give_up_at;  ///< set by the first dial of a start
};
struct Connecting {
  Instant give_up_at;
  Instant due;  ///< the planter itself ends before
};
struct Planting {
  Instant due;
};
struct WaitingForHello {
  Instant due;
};
/// An agent said hello.
struct Present {};
struct BackingOff {
  Instant due;
  std::optional<Instant> give_up_at;  ///< set: a quick retry within the connect timeout
};
/// Given up for good, or the job is over.
struct Failed {};

using HostState = std::variant<Idle, WaitingTurn, Connecting, Planting, WaitingForHello, Present,
                               BackingOff, Failed>;

/// "waiting turn", "connecting", … as in docs/states.md.
[[nodiscard]] const char* name_of(const HostState& state);
[[nodiscard]] std::optional<Instant> due_of(const HostState& state);

struct Endpoint {
  std::uint32_t in_flight = 0;
  std::set<HostId> waiting;
};

struct HostRecord {
  HostEntry entry;
  Endpoint* endpoint = nullptr;
  HostState state = Idle{};
  std::uint64_t attempt = 0;
  bool in_flight = false;  ///< the planter works on `attempt`
  bool starting = false;   ///< transient failures are still retried at once
  std::uint32_t quick_retries = 0;
  std::uint32_t failures = 0;  ///< in a row
  std::string reason;
};

}  // namespace dlaunch::launcher::launch
