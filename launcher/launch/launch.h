// The launch of a job's agents as a pure machine: who is dialled when, how often, and when a host
// is given up for now.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "launcher/launch/command.h"
#include "launcher/launch/event.h"

namespace dlaunch::launcher::launch {

struct HostEntry {
  HostId id;
  std::string name;      ///< for sentences
  std::string endpoint;  ///< the SSH server that is dialled (the jump host, if any); local: unique
};

struct Policy {
  std::vector<HostEntry> hosts;
  nanoseconds connect_timeout = 10s;  ///< transient failures are retried this long at the start
  nanoseconds plant_limit = 60s;      ///< connected → agent started, the copy included
  nanoseconds hello_limit = 15s;      ///< agent started → its hello
  nanoseconds back_off_first = 10s;
  nanoseconds back_off_max = 300s;
  std::uint32_t per_endpoint_max = 8;  ///< sshd's MaxStartups drops from 10 on
  std::uint32_t total_max = 64;        ///< one thread of the planter each
};

/// Owned by the controller, used on its thread only. Every host is in exactly one state.
class Launch {
 public:
  Launch(Policy policy, Rng& rng);

  [[nodiscard]] std::vector<Command> step(Instant now, const Event& event);
  /// nullopt: nothing to wait for but events.
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  struct View {
    std::string state;   ///< "waiting turn", "connecting", "planting", …
    std::string reason;  ///< the newest failure or why it is dialled again; may be empty
  };
  /// What status shows of this host while it has no agent.
  [[nodiscard]] View view(HostId host) const;

 private:
  struct Idle {};
  struct WaitingTurn {
    Instant give_up_at;
  };
  struct Connecting {
    Instant give_up_at;
    Instant due;
  };
  struct Planting {
    Instant due;
  };
  struct WaitingForHello {
    Instant due;
    bool hello = false;
    bool welcomed = false;
  };
  struct Present {};
  struct BackingOff {
    Instant due;
    std::optional<Instant> give_up_at;  ///< set: a quick retry within the connect timeout
  };
  struct Failed {};
  using State = std::variant<Idle, WaitingTurn, Connecting, Planting, WaitingForHello, Present,
                             BackingOff, Failed>;
  struct Host {
    HostEntry entry;
    State state = Idle{};
    std::uint64_t attempt = 0;
    std::uint32_t failures = 0;  ///< in a row, not counting quick retries
    std::string reason;
  };
  struct Endpoint {
    std::uint32_t in_flight = 0;
    std::set<HostId> waiting;
  };
  using Commands = std::vector<Command>;

  void on_start(Instant now);
  void on_replant(Instant now, const Replant& event);
  void on_progress(Instant now, const PlantProgress& event);
  void on_failed(Instant now, const PlantFailed& event, Commands& commands);
  void on_planted(const Planted& event, Commands& commands);
  void on_hello(HostId id, Commands& commands);
  void on_stop(Commands& commands);
  void on_deadline(Instant now, Commands& commands);
  void on_overdue(Instant now, Host& host, Commands& commands);

  [[nodiscard]] Host* find(HostId id);
  [[nodiscard]] Host* find(HostId id, std::uint64_t attempt);
  void fail(Instant now, Host& host, Cause cause, std::string sentence, Commands& commands);
  void dispatch(Instant now, Commands& commands);
  void leave_state(Host& host);
  void become(Host& host, State state);
  void become_waiting_turn(Host& host, Instant give_up_at);
  void become_connecting(Instant now, Host& host, Instant give_up_at, Commands& commands);
  void become_present(Host& host, Commands& commands);
  void become_backing_off(Instant now, Host& host, bool longest);

  Policy policy_;
  Rng& rng_;
  std::map<HostId, Host> hosts_;
  std::map<std::string, Endpoint> endpoints_;
  std::set<std::pair<HostId, std::string>> runnable_;  ///< first waiting host of a free endpoint
  std::set<std::pair<Instant, HostId>> deadlines_;
  std::uint32_t in_flight_ = 0;
  bool stopped_ = false;
};

}  // namespace dlaunch::launcher::launch
