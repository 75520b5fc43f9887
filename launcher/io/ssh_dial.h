// A connected socket on which an SSH server has begun to speak, or the exact reason why not.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "base/io/file_descriptor.h"
#include "launcher/io/child.h"
#include "launcher/io/deadline.h"
#include "launcher/io/plant_failure.h"
#include "launcher/io/ssh_settings.h"

namespace dlaunch::launcher::io {

/// Lets another thread end what a thread waits for, by shutting its socket down.
class Interrupt {
 public:
  /// False: already interrupted.
  [[nodiscard]] bool watch(int fd);
  void forget();
  void interrupt();
  [[nodiscard]] bool interrupted() const { return interrupted_; }

 private:
  std::atomic<bool> interrupted_ = false;
  std::mutex mutex_;
  int fd_ = -1;
};

struct Dialled {
  FileDescriptor socket;
  std::optional<Child> proxy;  ///< ended when this is destroyed
};

/// unresolved, refused, silent, closed_before_banner or cancelled. Nothing is read from the socket.
/// `interrupt` watches the socket when this returns.
[[nodiscard]] Planting<Dialled> dial(const SshSettings& settings, const Deadline& deadline,
                                     Interrupt& interrupt);

}  // namespace dlaunch::launcher::io
