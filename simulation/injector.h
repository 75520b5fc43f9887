// Brings the faults of a seed upon a simulated world, and heals them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "simulation/fault.h"
#include "simulation/host.h"
#include "simulation/scenario.h"

namespace dlaunch::simulation {

class Station;
class World;

/// Draws from dice of its own, so that the faults of a seed do not depend on how the job does.
class Injector {
 public:
  Injector(World& world, const Scenario& scenario, std::uint64_t seed);

  void start();
  /// Ends every fault that still lasts; no other comes.
  void heal_all();
  [[nodiscard]] const std::map<Fault, std::uint64_t>& applied() const { return applied_; }

 private:
  using Heal = std::function<void()>;

  void strike();
  [[nodiscard]] Fault choose();
  [[nodiscard]] Host& any_host();
  /// False: there is nothing just now that it could befall, or more of it could not be survived.
  bool apply(Fault fault, Host& host, nanoseconds lasts);
  bool apply_to_workers(Fault fault, Host& host, nanoseconds lasts);
  bool apply_to_processes(Fault fault, Host& host, nanoseconds lasts);
  bool apply_to_line(Fault fault, Host& host, nanoseconds lasts);
  bool apply_to_controller(Fault fault, nanoseconds lasts);
  bool apply_to_surroundings(Fault fault, Host& host, nanoseconds lasts);

  bool crash(Host& host, nanoseconds lasts);
  bool reboot_switch(Host& first, nanoseconds lasts);
  bool lose_tunnel(Host& first, nanoseconds lasts);
  void lose_relay_of(Host& host);
  bool partition(nanoseconds lasts);
  bool kill_controller();
  bool let_two_live(nanoseconds lasts);
  void come_back(Station& old);
  void dial_again();
  void mute_soon(const Station& station);
  bool disturb(Host& host, nanoseconds lasts, const std::function<void(Line&)>& begin,
               const std::function<void(Line&)>& end);
  /// After what was on its way has arrived: what happens now must not undo what was credited.
  void soon(std::function<void()> action);
  /// Runs after `lasts`, or when all is healed, whichever comes first.
  void heal_after(nanoseconds lasts, Heal heal);
  [[nodiscard]] bool may_lose(std::size_t hosts) const;

  World& world_;
  const Scenario& scenario_;
  Rng rng_;
  std::vector<std::pair<Fault, std::uint32_t>> weights_;
  std::uint32_t weight_sum_ = 0;
  std::size_t down_ = 0;          ///< hosts without power
  bool planning_ = false;         ///< what is applied now stands in the scenario
  bool controller_busy_ = false;  ///< one fault of the controller at a time
  bool over_ = false;
  std::uint64_t heals_ = 0;
  std::map<std::uint64_t, Heal> healing_;
  std::map<Fault, std::uint64_t> applied_;
};

}  // namespace dlaunch::simulation
