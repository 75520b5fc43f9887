#include "simulation/injector.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/units.h"
#include "simulation/world.h"

namespace dlaunch::simulation {
namespace {
constexpr int kTriesMax = 20;
constexpr nanoseconds kTryAgain = 5s;
constexpr nanoseconds kLastsMin = 50ms;
constexpr nanoseconds kOnItsWay = 5ms;  // longer than an undisturbed frame takes
}  // namespace

Injector::Injector(World& world, const Scenario& scenario, std::uint64_t seed)
    : world_(world), scenario_(scenario), rng_(seed) {
  for (const auto& [fault, weight] : scenario_.faults.weights) {
    if (scenario_.faults.swarm && rng_.chance(50)) continue;
    weights_.emplace_back(fault, weight);
    weight_sum_ += weight;
  }
  if (weights_.empty()) {
    for (const auto& entry : scenario_.faults.weights) {
      weights_.push_back(entry);
      weight_sum_ += entry.second;
    }
  }
}

void Injector::start() {
  auto& queue = world_.queue();
  for (const auto& planned : scenario_.planned) {
    queue.after(planned.at, [this, planned] {
      if (over_ || world_.is_over()) return;
      auto& host = *world_.hosts().at(HostId{planned.host});
      planning_ = true;
      if (apply(planned.fault, host, planned.lasts)) ++applied_[planned.fault];
      planning_ = false;
    });
  }
  if (weight_sum_ > 0) {
    queue.after(rng_.between(0ns, scenario_.faults.every), [this] { strike(); });
  }
}

Fault Injector::choose() {
  auto number = rng_.below(weight_sum_);
  for (const auto& [fault, weight] : weights_) {
    if (number < weight) return fault;
    number -= weight;
  }
  return weights_.back().first;
}

Host& Injector::any_host() {
  auto& hosts = world_.hosts();
  return *hosts.at(HostId{static_cast<std::uint32_t>(rng_.below(hosts.size()))});
}

void Injector::strike() {
  if (over_ || world_.is_over()) return;
  const auto every = scenario_.faults.every;
  auto next = rng_.between(every / 10, every * 19 / 10);
  bool struck = false;
  for (int i = 0; i < kTriesMax && !struck; ++i) {
    const auto fault = choose();
    auto& host = any_host();
    // Most are short, a few are long: the ratio of two dice.
    const auto longest = rng_.between(kLastsMin, scenario_.faults.lasts_max);
    const auto lasts = rng_.between(kLastsMin, longest);
    struck = apply(fault, host, lasts);
    if (struck) ++applied_[fault];
  }
  if (!struck) next = std::min(next, kTryAgain);
  world_.queue().after(next, [this] { strike(); });
}

void Injector::heal_after(nanoseconds lasts, Heal heal) {
  const auto number = ++heals_;
  if (over_) lasts = 0ns;
  healing_[number] = std::move(heal);
  world_.queue().after(lasts, [this, number] {
    const auto found = healing_.find(number);
    if (found == healing_.end()) return;
    const auto now = std::move(found->second);
    healing_.erase(found);
    now();
  });
}

void Injector::soon(std::function<void()> action) {
  world_.queue().after(kOnItsWay, [this, action = std::move(action)] {
    if (!over_) action();
  });
}

void Injector::heal_all() {
  over_ = true;
  for (auto& [number, heal] : std::exchange(healing_, {})) heal();
}

/// As many as the job can do without, unless a scenario wants to see just that.
bool Injector::may_lose(std::size_t hosts) const {
  return planning_ || down_ + hosts <= scenario_.hosts + scenario_.spares - scenario_.hosts_min;
}

bool Injector::apply(Fault fault, Host& host, nanoseconds lasts) {
  switch (fault) {
    case Fault::worker_crash:
    case Fault::out_of_memory:
    case Fault::worker_hang:
    case Fault::worker_slow:
    case Fault::worker_undead:
      return apply_to_workers(fault, host, lasts);
    case Fault::agent_kill:
    case Fault::agent_stall:
    case Fault::host_crash:
    case Fault::switch_reboot:
    case Fault::clock_drift:
    case Fault::connection_reset:
    case Fault::data_link_down:
    case Fault::data_cut:
    case Fault::data_pair_cut:
    case Fault::tunnel_lost:
      return apply_to_processes(fault, host, lasts);
    case Fault::link_delay:
    case Fault::link_loss:
    case Fault::cut_both:
    case Fault::cut_to_controller:
    case Fault::cut_to_host:
    case Fault::clog:
    case Fault::isolated:
    case Fault::relay_lost:
      return apply_to_line(fault, host, lasts);
    case Fault::partition:
    case Fault::controller_stall:
    case Fault::suspend:
    case Fault::controller_kill:
    case Fault::two_controllers:
      return apply_to_controller(fault, lasts);
    default:
      return apply_to_surroundings(fault, host, lasts);
  }
}

// ---- the controller

bool Injector::apply_to_controller(Fault fault, nanoseconds lasts) {
  if (controller_busy_) return false;
  switch (fault) {
    case Fault::partition:
      return partition(lasts * 3);
    case Fault::controller_kill:
      return kill_controller();
    case Fault::two_controllers:
      return let_two_live(lasts);
    default: {
      // A stall is shorter than any time-out of TCP, a sleep is longer than most leases.
      const auto length = fault == Fault::suspend ? lasts * 20 : lasts / 5;
      auto& station = world_.station();
      controller_busy_ = true;
      world_.note(name_of(fault), "for " + format_duration(length));
      world_.all_lines_changed();
      soon([this, &station, length] {
        station.freeze();
        mute_soon(station);
        heal_after(length, [this, &station] {
          controller_busy_ = false;
          world_.end_mute_all();
          station.thaw();
        });
      });
      return true;
    }
  }
}

/// A beat of each is on its way by then, so that TCP sees that it does not arrive.
void Injector::mute_soon(const Station& station) {
  constexpr nanoseconds kOneBeat = 250ms;
  world_.queue().after(kOneBeat, [this, &station] {
    if (station.is_frozen() || station.cuts() > 0) world_.mute_all(station);
  });
}

bool Injector::partition(nanoseconds lasts) {
  auto& station = world_.station();
  controller_busy_ = true;
  world_.note("partition", "the controller is cut off for " + format_duration(lasts));
  world_.all_lines_changed();
  soon([this, &station, lasts] {
    station.cut_off();
    mute_soon(station);
    heal_after(lasts, [this, &station] {
      controller_busy_ = false;
      world_.end_mute_all();
      station.reconnect();
      world_.all_healed(station);
    });
  });
  return true;
}

bool Injector::kill_controller() {
  constexpr nanoseconds kKeeper = 300ms;  // it sees the end, waits a little and starts another
  controller_busy_ = true;
  world_.note("controller_kill", "");
  world_.all_lines_changed();
  soon([this] {
    world_.station().kill();
    heal_after(kKeeper, [this] {
      controller_busy_ = false;
      world_.start_station();
    });
  });
  return true;
}

/// The keeper takes it for dead, yet it lives on, cut off; later it is back for a moment.
bool Injector::let_two_live(nanoseconds lasts) {
  auto& old = world_.station();
  controller_busy_ = true;
  world_.note("two_controllers", "the old one is cut off for " + format_duration(lasts));
  world_.all_lines_changed();
  soon([this, &old, lasts] {
    old.cut_off();
    old.lose_run_db();
    world_.start_station();
    heal_after(lasts, [this, &old] { come_back(old); });
  });
  return true;
}

/// Whoever dials now may reach either of two controllers.
void Injector::dial_again() {
  constexpr std::uint32_t kDialsAgainPercent = 30;
  for (auto& [id, host] : world_.hosts()) {
    if (!rng_.chance(kDialsAgainPercent)) continue;
    world_.line_changed(id);
    soon([&host = *host] { host.reset_connection(); });
  }
}

void Injector::come_back(Station& old) {
  constexpr nanoseconds kLastWords = 5s;
  world_.note("two_controllers", "the old one is back");
  old.reconnect();
  world_.all_healed(old);
  dial_again();
  world_.queue().after(kLastWords / 2, [this] { dial_again(); });
  heal_after(kLastWords, [this, &old] {
    controller_busy_ = false;
    old.kill();
  });
}

// ---- what all share

bool Injector::apply_to_surroundings(Fault fault, Host& host, nanoseconds lasts) {
  auto begin = [this, fault, lasts](const std::string& detail) {
    world_.note(name_of(fault), detail + " for " + format_duration(lasts));
  };
  switch (fault) {
    case Fault::ssh_refused:
    case Fault::ssh_slow:
    case Fault::ssh_wrong_key:
      if (world_.ssh() != SshTrouble::none) return false;
      lasts *= 3;
      begin("");
      world_.ssh() = fault == Fault::ssh_refused ? SshTrouble::refused
                     : fault == Fault::ssh_slow  ? SshTrouble::slow
                                                 : SshTrouble::wrong_key;
      heal_after(lasts, [this] { world_.ssh() = SshTrouble::none; });
      return true;
    case Fault::disk_full:
      if (world_.run_db().is_full()) return false;
      begin("");
      world_.run_db().set_full(true);
      heal_after(lasts, [this] { world_.run_db().set_full(false); });
      return true;
    case Fault::storage_outage:
      if (world_.storage().is_out()) return false;
      begin("");
      world_.storage().set_out(true);
      heal_after(lasts * 3, [this] { world_.storage().set_out(false); });
      return true;
    case Fault::dial_blocked:
      begin("h" + std::to_string(host.id().value));
      host.block_dialling(true);
      heal_after(lasts, [&host] { host.block_dialling(false); });
      return true;
    case Fault::drain_and_add: {
      if (!may_lose(1)) return false;
      begin("h" + std::to_string(host.id().value));
      ++down_;
      world_.station().ask(launcher::controller::DrainAsked{host.id()});
      heal_after(lasts, [this, &host] {
        --down_;
        world_.station().ask(launcher::controller::AddAsked{host.id()});
      });
      return true;
    }
    default:
      world_.note(name_of(fault), "");
      world_.station().ask(launcher::controller::ForJob{supervisor::job::CheckpointAsked{}});
      return true;
  }
}

}  // namespace dlaunch::simulation
