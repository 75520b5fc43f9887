// Faults of workers, agents, hosts and their lines.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/units.h"
#include "simulation/injector.h"
#include "simulation/world.h"

namespace dlaunch::simulation {
namespace {

constexpr nanoseconds kRelayLostMin = 4s;

std::string name_of_host(const Host& host) { return "h" + std::to_string(host.id().value); }

supervisor::host::WorkerEnded end_of(std::uint64_t dice) {
  constexpr std::array kSignals = {6, 9, 11};
  supervisor::host::WorkerEnded ended;
  if (dice % 2 == 0) {
    ended.signal = kSignals[dice / 2 % kSignals.size()];
  } else {
    ended.code = 1;
    ended.last_lines = {"RuntimeError: simulated " + std::to_string(dice)};
  }
  return ended;
}

}  // namespace

bool Injector::apply_to_workers(Fault fault, Host& host, nanoseconds lasts) {
  if (host.workers().empty()) return false;
  const auto& [rank, worker] = *host.workers().begin();
  const auto where = name_of_host(host);
  const auto dice = rng_.next();
  switch (fault) {
    case Fault::worker_crash:
      world_.note("worker_crash", where);
      host.kill_worker(rank, end_of(dice));
      return true;
    case Fault::out_of_memory: {
      world_.note("out_of_memory", where);
      supervisor::host::WorkerEnded ended;
      ended.signal = 9;
      ended.out_of_memory = true;
      host.kill_worker(rank, ended);
      return true;
    }
    case Fault::worker_hang:
      if (!worker.gang->is_training()) return false;
      world_.note("worker_hang", where);
      host.hang_worker(rank);
      return true;
    case Fault::worker_undead:
      world_.note("worker_undead", where + " for " + format_duration(lasts));
      host.hold_workers(world_.queue().now() + lasts);
      return true;
    default: {
      if (!worker.gang->is_training()) return false;
      world_.note("worker_slow", where + " for " + format_duration(lasts));
      auto* gang = worker.gang;
      gang->slow(150 + static_cast<std::uint32_t>(dice % 250));
      heal_after(lasts, [gang] { gang->slow(100); });
      return true;
    }
  }
}

bool Injector::apply_to_processes(Fault fault, Host& host, nanoseconds lasts) {
  const auto where = name_of_host(host);
  if (fault == Fault::switch_reboot) return reboot_switch(host, lasts);
  if (fault == Fault::tunnel_lost) return lose_tunnel(host, lasts);
  if (!host.up()) return false;
  switch (fault) {
    case Fault::host_crash:
      if (!may_lose(1)) return false;
      world_.note("host_crash", where + " for " + format_duration(lasts * 3));
      return crash(host, lasts * 3);
    case Fault::clock_drift: {
      constexpr std::int64_t kDriftMax = 20'000;  // 2 %: far worse than any quartz
      const auto drift = static_cast<std::int64_t>(rng_.below(2 * kDriftMax)) - kDriftMax;
      world_.note("clock_drift", where + " by " + std::to_string(drift) + " us/s");
      host.drift(drift);
      return true;
    }
    case Fault::data_link_down:
      if (!host.has_agent()) return false;
      world_.note("data_link_down", where + " for " + format_duration(lasts));
      host.data_link(false);
      heal_after(lasts, [&host] { host.data_link(true); });
      return true;
    case Fault::data_cut:
      world_.note("data_cut", where + " for " + format_duration(lasts));
      host.cut_data(true);
      heal_after(lasts, [&host] { host.cut_data(false); });
      return true;
    case Fault::data_pair_cut: {
      const auto all = static_cast<std::uint32_t>(world_.hosts().size());
      const HostId other{(host.id().value + 1) % all};
      if (other == host.id()) return false;
      world_.note("data_pair_cut", where + " for " + format_duration(lasts));
      world_.cut_pair(host.id(), other, true);
      heal_after(lasts, [this, &host, other] { world_.cut_pair(host.id(), other, false); });
      return true;
    }
    default:
      break;
  }
  if (!host.has_agent() || host.is_frozen()) return false;
  if (fault == Fault::agent_kill) {
    world_.note("agent_kill", where);
    world_.line_changed(host.id());
    soon([&host] { host.kill_agent(); });
  } else if (fault == Fault::agent_stall) {
    world_.note("agent_stall", where + " for " + format_duration(lasts));
    world_.line_changed(host.id());
    soon([this, &host, lasts] {
      host.freeze_agent();
      heal_after(lasts, [&host] { host.thaw_agent(); });
    });
  } else {
    if (!host.connection()) return false;
    world_.note("connection_reset", where);
    world_.line_changed(host.id());
    soon([&host] { host.reset_connection(); });
  }
  return true;
}

/// Of the first one from there on that has one; now and then it cannot be had again at once.
bool Injector::lose_tunnel(Host& first, nanoseconds lasts) {
  auto& hosts = world_.hosts();
  const bool refused = rng_.chance(33) && world_.ssh() == SshTrouble::none;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto number = (first.id().value + i) % hosts.size();
    auto& host = *hosts.at(HostId{static_cast<std::uint32_t>(number)});
    if (!host.is_over_ssh()) continue;
    world_.note("tunnel_lost", name_of_host(host) + (refused ? ", and SSH is refused" : ""));
    if (refused) {
      world_.ssh() = SshTrouble::refused;
      heal_after(lasts, [this] { world_.ssh() = SshTrouble::none; });
    }
    world_.line_changed(host.id());
    soon([&host] { host.lose_tunnel(); });
    return true;
  }
  return false;
}

/// As soon as one is surely found.
void Injector::lose_relay_of(Host& host) {
  constexpr nanoseconds kFound = 1500ms;
  world_.queue().after(kFound, [this, &host] {
    const auto relay = host.relay();
    if (over_ || !relay) return;
    world_.note("relay_lost",
                "h" + std::to_string(relay->value) + ", which relayed for " + name_of_host(host));
    world_.line_changed(*relay);
    soon([this, relay] { world_.hosts().at(*relay)->kill_agent(); });
  });
}

bool Injector::crash(Host& host, nanoseconds lasts) {
  ++down_;
  world_.line_changed(host.id());
  soon([this, &host, lasts] {
    host.crash();
    heal_after(lasts, [this, &host] {
      --down_;
      host.reboot();
    });
  });
  return true;
}

/// The hosts behind one switch are neighbours in the file.
bool Injector::reboot_switch(Host& first, nanoseconds lasts) {
  auto& hosts = world_.hosts();
  const auto all = hosts.size();
  const auto count = std::max<std::size_t>(2, rng_.below(all / 8 + 1));
  if (!may_lose(count)) return false;
  std::vector<Host*> behind;
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = (first.id().value + i) % all;
    auto& host = *hosts.at(HostId{static_cast<std::uint32_t>(number)});
    if (host.up()) behind.push_back(&host);
  }
  if (behind.size() < 2) return false;
  world_.note("switch_reboot", std::to_string(behind.size()) + " hosts from " +
                                   name_of_host(*behind.front()) + " for " +
                                   format_duration(lasts * 3));
  for (auto* host : behind) crash(*host, lasts * 3);
  return true;
}

bool Injector::disturb(Host& host, nanoseconds lasts, const std::function<void(Line&)>& begin,
                       const std::function<void(Line&)>& end) {
  world_.line_changed(host.id());
  soon([this, &host, lasts, begin, end] {
    if (host.line().disturbed(world_.queue().now())) return;
    begin(host.line());
    heal_after(lasts, [this, &host, end] {
      end(host.line());
      world_.line_healed(host.id());
    });
  });
  return true;
}

bool Injector::apply_to_line(Fault fault, Host& host, nanoseconds lasts) {
  if (!host.up() || host.line().disturbed(world_.queue().now())) return false;
  world_.note(name_of(fault), name_of_host(host) + " for " + format_duration(lasts));
  const auto dice = rng_.next();
  switch (fault) {
    case Fault::link_delay: {
      const auto delay = milliseconds(20 + dice % 400);
      return disturb(
          host, lasts, [delay](Line& l) { l.to_host.delay = l.to_controller.delay = delay; },
          [](Line& l) { l.to_host.delay = l.to_controller.delay = 0ns; });
    }
    case Fault::link_loss: {
      const auto percent = 1 + static_cast<std::uint32_t>(dice % 20);
      return disturb(
          host, lasts,
          [percent](Line& l) { l.to_host.loss_percent = l.to_controller.loss_percent = percent; },
          [](Line& l) { l.to_host.loss_percent = l.to_controller.loss_percent = 0; });
    }
    case Fault::clog: {
      const auto until = world_.queue().now() + lasts;
      const bool up = dice % 2 == 0;
      return disturb(
          host, lasts,
          [until, up](Line& l) { (up ? l.to_controller : l.to_host).clogged_until = until; },
          [](Line& l) { l.to_controller.clogged_until = l.to_host.clogged_until = {}; });
    }
    default: {
      const bool up = fault != Fault::cut_to_host;
      const bool down = fault != Fault::cut_to_controller;
      const bool data = fault == Fault::isolated;
      if (fault == Fault::relay_lost) {
        lasts = std::max(lasts, kRelayLostMin);
        lose_relay_of(host);
      }
      return disturb(
          host, lasts,
          [up, down, data, &host](Line& l) {
            l.to_controller.cuts += up ? 1 : 0;
            l.to_host.cuts += down ? 1 : 0;
            if (data) host.cut_data(true);
          },
          [up, down, data, &host](Line& l) {
            l.to_controller.cuts -= up ? 1 : 0;
            l.to_host.cuts -= down ? 1 : 0;
            if (data) host.cut_data(false);
          });
    }
  }
}

}  // namespace dlaunch::simulation
