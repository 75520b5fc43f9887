// The launch of a job's agents as a pure machine: who is dialled when, how often, and when a host
// is given up for now.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "launcher/launch/command.h"
#include "launcher/launch/event.h"
#include "launcher/launch/host_state.h"

namespace dlaunch::launcher::launch {

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
    std::string state;   ///< docs/states.md
    std::string reason;  ///< the newest failure or why it is dialled again; may be empty
  };
  /// What status shows of this host while it has no agent.
  [[nodiscard]] View view(HostId host) const;

 private:
  void on_start(const StartAll& event);
  void on_replant(Instant now, const Replant& event);
  void on_progress(Instant now, const PlantProgress& event);
  void on_failed(Instant now, const PlantFailed& event);
  void on_planted(const Planted& event);
  void on_hello(const HelloSeen& event);
  void on_stop();
  void on_deadline(Instant now);
  void on_overdue(Instant now, HostRecord& host);

  /// nullptr: unknown host, or the report of an attempt that no longer counts.
  [[nodiscard]] HostRecord* find(HostId id);
  [[nodiscard]] HostRecord* find(HostId id, std::uint64_t attempt);
  void dispatch(Instant now);
  void release(HostRecord& host);
  void cancel(HostRecord& host);
  void fail(Instant now, HostRecord& host, Cause cause, std::string sentence);

  void become(HostRecord& host, HostState state);
  void become_waiting_turn(HostRecord& host, std::optional<Instant> give_up_at);
  void become_connecting(Instant now, HostRecord& host);
  void become_present(HostRecord& host);
  void become_backing_off(Instant now, HostRecord& host, nanoseconds pause);

  void leave_queue(const Endpoint& endpoint);
  void enter_queue(Endpoint& endpoint);
  [[nodiscard]] nanoseconds pause_after_failure(Cause cause, std::uint32_t failures);

  Policy policy_;
  Rng& rng_;
  std::map<std::string, Endpoint> endpoints_;
  std::map<HostId, HostRecord> hosts_;
  std::map<HostId, Endpoint*> runnable_;  ///< by the first waiting host of an endpoint with room
  std::set<std::pair<Instant, HostId>> deadlines_;
  std::uint32_t in_flight_ = 0;
  bool stopped_ = false;
  bool again_ = false;  ///< agents may be there from before
  std::vector<Command> commands_;
};

}  // namespace dlaunch::launcher::launch
