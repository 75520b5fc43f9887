// The signals a viewer lives with, as a file descriptor.
#pragma once

#include <optional>
#include <utility>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::launcher::cli {

/// Blocks SIGINT, SIGTERM and SIGHUP in this thread and reads them from a descriptor instead; one
/// at a time per process. SIGPIPE is ignored: a closed terminal is an error of the write.
class Signals {
 public:
  [[nodiscard]] static Result<Signals> take();

  /// The next signal that came; nullopt: none.
  [[nodiscard]] std::optional<int> next();
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  explicit Signals(FileDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
  FileDescriptor descriptor_;
};

}  // namespace dlaunch::launcher::cli
