// What is simulated: a job on a cluster, what befalls it, and what must come of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "simulation/fault.h"
#include "simulation/gang.h"

namespace dlaunch::simulation {

/// What happens at random. A seed of a swarm uses about half of the kinds, so that some of them
/// meet often.
struct FaultMix {
  std::map<Fault, std::uint32_t> weights;  ///< empty: none
  nanoseconds every = 2min;                ///< on average
  bool swarm = false;
  /// Each lasts a random part of this; long ones are what recovery waits for.
  nanoseconds lasts_max = 20s;
};

/// One that happens in each seed, at its time.
struct PlannedFault {
  nanoseconds at{};
  Fault fault = Fault::worker_crash;
  std::uint32_t host = 0;
  nanoseconds lasts = 1s;
};

/// How the job is brought to its end, after the last fault is healed and the job has run again.
enum class Ending { by_seed, finish, stop, stop_now, preempt };

struct Expectation {
  std::set<int> codes = {0, 75, 76, 130};  ///< any of docs/exit_codes.md that may come
  std::optional<std::uint64_t> generations_max;
  std::optional<std::uint64_t> incidents_min;
  std::optional<double> goodput_min;
  std::optional<std::uint64_t> tunnels_max;  ///< whoever can dial needs none
};

struct Scenario {
  std::string name = "unnamed";
  std::uint32_t hosts = 4;  ///< that train
  std::uint32_t spares = 1;
  std::uint32_t hosts_min = 4;
  std::uint32_t workers = 1;     ///< per host
  bool program = false;          ///< workers that know nothing of dlaunch
  std::uint32_t behind_nat = 0;  ///< hosts, the last of those that train, that cannot dial back
  bool data_paths = true;        ///< agents probe each other; false: a firewall is between them
  TrainingScript training;

  FaultMix faults;
  std::vector<PlannedFault> planned;

  nanoseconds duration = 1h;        ///< of faults
  nanoseconds heal_within = 15min;  ///< then the job must run, or have ended with a reason
  Ending ending = Ending::by_seed;

  nanoseconds lost_after = 600ms;
  nanoseconds hang_floor = 60s;
  nanoseconds lease = 60s;
  nanoseconds wait_for_host = 30min;
  std::uint32_t restarts = 1000;
  std::uint32_t no_progress_generations = 50;
  bool quarantine = false;  ///< random faults hit the same host more often than real ones
  bool single_beats = false;
  bool keep_decisions = false;  ///< all of them, in the outcome; a long run has millions
  nanoseconds link_delay_min = 50us, link_delay_max = 2ms;

  Expectation expect;
};

}  // namespace dlaunch::simulation
