// A broken invariant is a bug in dlaunch: say so and stop; the process above restarts us.
#pragma once

namespace dlaunch {

[[noreturn]] void check_failed(const char* condition, const char* sentence, const char* file,
                               int line);

}  // namespace dlaunch

/// Always on. `sentence` says which invariant is broken, for the log.
#define DL_CHECK(condition, sentence) \
  ((condition) ? static_cast<void>(0) \
               : ::dlaunch::check_failed(#condition, (sentence), __FILE__, __LINE__))
