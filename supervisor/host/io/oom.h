// Asks the kernel log whether the kernel ended a process for want of memory.
#pragma once

#include <sys/types.h>

namespace dlaunch::supervisor::host {

/// False also where the kernel log cannot be read (a blind sensor, said in the host's facts). Reads
/// the newest part of the log, bounded.
[[nodiscard]] bool was_out_of_memory(pid_t pid);

}  // namespace dlaunch::supervisor::host
