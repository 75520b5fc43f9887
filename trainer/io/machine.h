// What this process uses of its machine, and what the machine could do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlaunch::trainer {

struct MemoryUse {
  std::uint64_t now = 0;   ///< bytes resident
  std::uint64_t peak = 0;  ///< since the process began
};

/// "AMD EPYC 7763 64-Core Processor"; "unknown processor" where /proc/cpuinfo does not say.
[[nodiscard]] std::string processor_name();

/// Zeros where the kernel does not say.
[[nodiscard]] MemoryUse memory_use();

/// Lets the allocator keep what is freed, up to some hundred MiB, instead of giving it back to the
/// kernel, which would clear the same pages again in each step.
void keep_freed_memory();

/// Single-precision operations a second of `cores` of this machine's cores at their highest clock,
/// as far as /proc/cpuinfo and cpufreq tell; 0: unknown.
[[nodiscard]] double peak_flops_per_second(unsigned cores);

/// Single-precision operations of one core in one cycle: two units, each a multiplication and an
/// addition on a whole vector. `flags`: that line of /proc/cpuinfo. 0: unknown.
[[nodiscard]] double flops_per_cycle(std::string_view flags);

}  // namespace dlaunch::trainer
