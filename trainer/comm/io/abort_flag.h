// Ends every wait of a generation at once, from any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "base/io/file_descriptor.h"

namespace dlaunch::comm {

/// One per generation, shared by its waits; set once and never cleared. Backed by an eventfd, so
/// that a waiter in poll() wakes within the scheduler's latency.
class AbortFlag {
 public:
  AbortFlag();
  AbortFlag(const AbortFlag&) = delete;
  AbortFlag& operator=(const AbortFlag&) = delete;

  /// The first reason stays. Any thread; not for signal handlers.
  void set(std::string reason);
  [[nodiscard]] bool is_set() const { return set_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string reason() const;
  /// Readable once set; never read from it.
  [[nodiscard]] int fd() const { return event_.get(); }

 private:
  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<bool> set_{false};
  FileDescriptor event_;
};

}  // namespace dlaunch::comm
