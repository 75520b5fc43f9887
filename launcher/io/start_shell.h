// A shell on a host, however it was reached: what the start script is fed to.
#pragma once

#include <string>
#include <string_view>

#include "launcher/io/deadline.h"
#include "launcher/io/plant_failure.h"

namespace dlaunch::launcher::io {

/// Used by one thread. The destructor closes the connection; what was started there lives on.
class StartShell {
 public:
  StartShell() = default;
  StartShell(const StartShell&) = delete;
  StartShell& operator=(const StartShell&) = delete;
  virtual ~StartShell() = default;

  /// Returns before all is written only with a failure, among them that the other side is gone.
  [[nodiscard]] virtual Planting<void> write(std::string_view bytes, const Deadline& deadline) = 0;
  /// At least one byte; empty: the other side has closed. Fails when the deadline is over.
  [[nodiscard]] virtual Planting<std::string> read(const Deadline& deadline) = 0;
  /// Readable when `read` has something new; bytes that came with others may be waiting all the
  /// same.
  [[nodiscard]] virtual int descriptor() const = 0;
  /// The last bytes of its stderr, on one line.
  [[nodiscard]] virtual std::string errors() = 0;
};

}  // namespace dlaunch::launcher::io
