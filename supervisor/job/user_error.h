// Tells a mistake in the user's program from bad luck: the same end at the same place twice.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::supervisor::job {

/// How a program ended, as far as it tells whether trying again makes sense.
struct ProgramEnd {
  int code = 0;
  int signal = 0;
  std::string last_line;  ///< of its error output; empty: nothing said
  nanoseconds lived{};
  std::optional<Step> step;  ///< last completed
};

/// Exit code other than 0, or SIGSEGV, SIGABRT, SIGFPE; never SIGKILL or SIGTERM, which come from
/// outside. Twice with the same code and the same non-empty last line, each time within two minutes
/// of the start or at the same step.
class UserErrorRule {
 public:
  /// True: it is the user's error and not worth another try.
  [[nodiscard]] bool judge(const ProgramEnd& end);
  /// What the next end is compared with.
  [[nodiscard]] const std::optional<ProgramEnd>& last() const { return last_; }
  void restore(std::optional<ProgramEnd> last) { last_ = std::move(last); }

 private:
  std::optional<ProgramEnd> last_;
};

}  // namespace dlaunch::supervisor::job
