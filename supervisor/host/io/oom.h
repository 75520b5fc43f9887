// Asks the kernel whether the it ended a process for want of memory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>

namespace dlaunch::supervisor::host {

/// False also where the kernel log cannot be read (a blind sensor, said in the host's facts). Reads
/// the newest part of the log, bounded.
[[nodiscard]] bool was_out_of_memory(pid_t pid);
[[nodiscard]] bool kernel_log_is_readable();

/// Where the kernel log cannot be read: whether the kernel ended any process of this host for want
/// of memory lately. Owned by one thread, which looks every tenth of a second.
class OutOfMemoryCounter {
 public:
  void look();
  [[nodiscard]] bool rose_lately() const;

 private:
  std::deque<std::uint64_t> counts_;
};

}  // namespace dlaunch::supervisor::host
