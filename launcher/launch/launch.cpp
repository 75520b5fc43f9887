#include "launcher/launch/launch.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "base/probe.h"

namespace dlaunch::launcher::launch {
namespace {

// The planter ends a dial by itself; this only catches one that does not.
constexpr nanoseconds kOverdueAfter = 2s;
constexpr nanoseconds kQuickRetryFirst = 100ms;
constexpr nanoseconds kQuickRetryMax = 2s;
// A dial with less time than this is not worth a connection.
constexpr nanoseconds kDialMin = 250ms;
constexpr std::uint32_t kDoublingsMax = 16;

nanoseconds doubled(nanoseconds first, std::uint32_t times, nanoseconds most) {
  return std::min(first * (std::int64_t{1} << std::min(times, kDoublingsMax)), most);
}

}  // namespace

Launch::Launch(Policy policy, Rng& rng) : policy_(std::move(policy)), rng_(rng) {
  for (const HostEntry& entry : policy_.hosts) {
    HostRecord& host = hosts_[entry.id];
    host.entry = entry;
    host.endpoint = &endpoints_[entry.endpoint];
  }
}

std::vector<Command> Launch::step(Instant now, const Event& event) {
  commands_.clear();
  std::visit(
      Overloaded{[&](const StartAll& e) { on_start(e); },
                 [&](const Replant& e) { on_replant(now, e); },
                 [&](const PlantProgress& e) { on_progress(now, e); },
                 [&](const PlantFailed& e) { on_failed(now, e); },
                 [&](const Planted& e) { on_planted(e); }, [&](const HelloSeen& e) { on_hello(e); },
                 [&](const StopAll&) { on_stop(); }, [&](const DeadlineDue&) { on_deadline(now); }},
      event);
  dispatch(now);
  return std::move(commands_);
}

std::optional<Instant> Launch::next_deadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

Launch::View Launch::view(HostId id) const {
  const auto found = hosts_.find(id);
  if (found == hosts_.end()) return {};
  return {name_of(found->second.state), found->second.reason};
}

void Launch::on_start(const StartAll& event) {
  if (stopped_) return;
  again_ = event.again;
  for (auto& [id, host] : hosts_) {
    if (!std::holds_alternative<Idle>(host.state)) continue;
    host.starting = true;
    become_waiting_turn(host, std::nullopt);
  }
}

void Launch::on_replant(Instant now, const Replant& event) {
  HostRecord* host = find(event.host);
  if (host == nullptr || stopped_) return;
  const bool settled = std::holds_alternative<Idle>(host->state) ||
                       std::holds_alternative<Present>(host->state) ||
                       std::holds_alternative<Failed>(host->state);
  if (!settled) return;  // it is being dialled already
  cancel(*host);
  host->starting = false;
  host->failures = 0;
  host->reason = event.reason;
  if (event.at_once) return become_waiting_turn(*host, std::nullopt);
  become_backing_off(now, *host, pause_after_failure(Cause::silent, 0));
}

void Launch::on_progress(Instant now, const PlantProgress& event) {
  HostRecord* host = find(event.host, event.attempt);
  if (host == nullptr) return;
  if (event.stage == Stage::connected && std::holds_alternative<Connecting>(host->state)) {
    become(*host, Planting{now + policy_.plant_limit});
  }
  const bool before_start = std::holds_alternative<Connecting>(host->state) ||
                            std::holds_alternative<Planting>(host->state);
  if (event.stage == Stage::started && before_start) {
    become(*host, WaitingForHello{now + policy_.hello_limit});
  }
}

void Launch::on_failed(Instant now, const PlantFailed& event) {
  HostRecord* host = find(event.host, event.attempt);
  if (host == nullptr) return;
  release(*host);
  if (std::holds_alternative<Present>(host->state)) return;  // an agent is there all the same
  const auto* connecting = std::get_if<Connecting>(&host->state);
  if (connecting != nullptr && host->starting && is_transient(event.cause)) {
    const nanoseconds pause = doubled(kQuickRetryFirst, host->quick_retries++, kQuickRetryMax);
    const Instant due = now + rng_.between(pause / 2, pause * 3 / 2);
    const Instant give_up_at = connecting->give_up_at;
    if (due + kDialMin < give_up_at) {
      host->reason = event.sentence;
      become(*host, BackingOff{due, give_up_at});
      return;
    }
  }
  fail(now, *host, event.cause, event.sentence);
}

void Launch::on_planted(const Planted& event) {
  HostRecord* host = find(event.host, event.attempt);
  if (host != nullptr) release(*host);  // HostPlanted waits for the hello itself
}

void Launch::on_hello(const HelloSeen& event) {
  HostRecord* host = find(event.host);
  if (host == nullptr || stopped_ || std::holds_alternative<Present>(host->state)) return;
  // An agent of before is back while we dial, or while the planter waits for just that agent on the
  // host: nothing is to be planted, or it would be made to leave. At the very start, and once an
  // agent was started, the hello is that one's, and the planter ends by itself.
  const bool first = !again_ && host->starting && host->attempt == 1;
  const bool waits = std::holds_alternative<Planting>(host->state) && !first;
  if (waits || std::holds_alternative<Connecting>(host->state)) {
    DL_PROBE("an agent is back while it is dialled");
    cancel(*host);
  }
  become_present(*host);
}

void Launch::on_stop() {
  stopped_ = true;
  for (auto& [id, host] : hosts_) {
    cancel(host);
    if (!std::holds_alternative<Present>(host.state)) become(host, Failed{});
  }
}

void Launch::on_deadline(Instant now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    on_overdue(now, hosts_.at(deadlines_.begin()->second));
  }
}

void Launch::on_overdue(Instant now, HostRecord& host) {
  if (const auto* backing_off = std::get_if<BackingOff>(&host.state)) {
    become_waiting_turn(host, backing_off->give_up_at);
    return;
  }
  cancel(host);
  if (std::holds_alternative<Connecting>(host.state)) {
    fail(now, host, Cause::silent, host.entry.name + " did not answer in time");
  } else if (std::holds_alternative<Planting>(host.state)) {
    fail(now, host, Cause::agent_failed,
         host.entry.name + ": the agent was not started within " +
             std::to_string(policy_.plant_limit / 1s) +
             " s of the login; the host or its scratch directory may be very slow");
  } else {
    fail(now, host, Cause::cannot_dial_back,
         host.entry.name + ": the agent was started but did not say hello within " +
             std::to_string(policy_.hello_limit / 1s) +
             " s; a firewall between the host and this machine is likely: see [network] "
             "controller_address and ports");
  }
}

HostRecord* Launch::find(HostId id) {
  const auto found = hosts_.find(id);
  return found == hosts_.end() ? nullptr : &found->second;
}

HostRecord* Launch::find(HostId id, std::uint64_t attempt) {
  HostRecord* host = find(id);
  return host != nullptr && host->in_flight && host->attempt == attempt ? host : nullptr;
}

void Launch::dispatch(Instant now) {
  while (in_flight_ < policy_.total_max && !runnable_.empty()) {
    become_connecting(now, hosts_.at(runnable_.begin()->first));
  }
}

/// The planter is done with the host.
void Launch::release(HostRecord& host) {
  if (!host.in_flight) return;
  host.in_flight = false;
  --in_flight_;
  leave_queue(*host.endpoint);
  --host.endpoint->in_flight;
  enter_queue(*host.endpoint);
}

void Launch::cancel(HostRecord& host) {
  if (!host.in_flight) return;
  commands_.emplace_back(CancelPlant{host.entry.id, host.attempt});
  release(host);
}

void Launch::fail(Instant now, HostRecord& host, Cause cause, std::string sentence) {
  host.starting = false;
  ++host.failures;
  DL_PROBE("a host cannot be planted for now");
  host.reason = sentence;
  // Neither another machine nor another build appears by waiting.
  const bool retried = cause != Cause::wrong_architecture;
  commands_.emplace_back(HostFailed{host.entry.id, cause, std::move(sentence), retried});
  if (retried) {
    become_backing_off(now, host, pause_after_failure(cause, host.failures - 1));
  } else {
    become(host, Failed{});
  }
}

void Launch::become(HostRecord& host, HostState state) {
  const HostId id = host.entry.id;
  if (const auto due = due_of(host.state)) deadlines_.erase({*due, id});
  if (std::holds_alternative<WaitingTurn>(host.state)) {
    leave_queue(*host.endpoint);
    host.endpoint->waiting.erase(id);
    enter_queue(*host.endpoint);
  }
  host.state = state;
  if (const auto due = due_of(host.state)) deadlines_.insert({*due, id});
}

void Launch::become_waiting_turn(HostRecord& host, std::optional<Instant> give_up_at) {
  become(host, WaitingTurn{give_up_at});
  leave_queue(*host.endpoint);
  host.endpoint->waiting.insert(host.entry.id);
  enter_queue(*host.endpoint);
}

void Launch::become_connecting(Instant now, HostRecord& host) {
  const auto& waiting = std::get<WaitingTurn>(host.state);
  Instant give_up_at = now + policy_.connect_timeout;
  // A retry that had to wait for its turn still gets a dial of useful length.
  if (waiting.give_up_at) give_up_at = std::max(*waiting.give_up_at, now + kDialMin);
  become(host, Connecting{give_up_at, give_up_at + kOverdueAfter});
  ++host.attempt;
  host.in_flight = true;
  ++in_flight_;
  leave_queue(*host.endpoint);
  ++host.endpoint->in_flight;
  enter_queue(*host.endpoint);
  commands_.emplace_back(Plant{host.entry.id, host.attempt, give_up_at - now});
}

void Launch::become_present(HostRecord& host) {
  become(host, Present{});
  host.starting = false;
  host.quick_retries = 0;
  host.failures = 0;
  host.reason.clear();
  commands_.emplace_back(HostPlanted{host.entry.id});
}

void Launch::become_backing_off(Instant now, HostRecord& host, nanoseconds pause) {
  become(host, BackingOff{now + pause, std::nullopt});
}

void Launch::leave_queue(const Endpoint& endpoint) {
  if (!endpoint.waiting.empty()) runnable_.erase(*endpoint.waiting.begin());
}

void Launch::enter_queue(Endpoint& endpoint) {
  if (endpoint.waiting.empty() || endpoint.in_flight >= policy_.per_endpoint_max) return;
  runnable_.emplace(*endpoint.waiting.begin(), &endpoint);
}

nanoseconds Launch::pause_after_failure(Cause cause, std::uint32_t failures) {
  // Refused keys are not tried often: servers ban addresses that do.
  const nanoseconds pause = is_authentication(cause)
                                ? policy_.back_off_max
                                : doubled(policy_.back_off_first, failures, policy_.back_off_max);
  return rng_.between(pause * 4 / 5, pause);
}

}  // namespace dlaunch::launcher::launch
