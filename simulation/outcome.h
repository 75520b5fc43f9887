// What came of a simulated job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulation/fault.h"

namespace dlaunch::simulation {

struct Outcome {
  std::uint64_t seed = 0;
  std::optional<int> code;  ///< nullopt: the job did not end
  std::string sentence;
  double simulated_seconds = 0;
  std::uint64_t generations = 0;
  std::uint64_t tunnels = 0;                       ///< times that one was taken
  std::uint64_t steps = 0;                         ///< in the newest checkpoint
  double goodput = 0;                              ///< time that new steps took, of all the time
  std::map<std::string, std::uint64_t> incidents;  ///< by cause
  std::vector<double> recovery_seconds;            ///< of closed incidents, from fault to new step
  std::map<Fault, std::uint64_t> faults;           ///< that took effect
  std::uint64_t events = 0;
  std::uint64_t hash = 0;           ///< equal for equal seeds
  std::vector<std::string> broken;  ///< rules that did not hold, and expectations
  std::vector<std::string> trace;   ///< the newest lines
  /// What the controllers recorded, in order: event, host, generation. Where the scenario keeps it.
  std::vector<std::string> decisions;

  [[nodiscard]] std::uint64_t fault_count() const {
    std::uint64_t count = 0;
    for (const auto& [fault, times] : faults) count += times;
    return count;
  }
};

/// The value below which this share of the values lies; 0 without values.
[[nodiscard]] double percentile(std::vector<double> values, double share);

}  // namespace dlaunch::simulation
