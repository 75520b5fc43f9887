// The signals a viewer lives with, as a file descriptor.
#pragma once

#include <optional>

#include "base/result.h"

namespace dlaunch::launcher::cli {

/// Blocks SIGINT, SIGTERM and SIGHUP in this thread and reads them from a descriptor instead; one
/// at a time per process. SIGPIPE is ignored: a closed terminal is an error of the write.
class Signals {
 public:
  [[nodiscard]] static Result<Signals> take();
  Signals(Signals&& other) noexcept;
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  Signals& operator=(Signals&&) = delete;
  ~Signals();

  /// The next signal that came; nullopt: none.
  [[nodiscard]] std::optional<int> next();
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  explicit Signals(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace dlaunch::launcher::cli
