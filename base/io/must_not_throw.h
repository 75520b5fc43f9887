// What becomes of an exception that a coroutine let escape.
#pragma once

#include <exception>

namespace dlaunch {

/// For the completion of a coroutine that deals with its own errors: what escapes all the same is a
/// bug and leaves `run` of the io_context, so that the process ends and says it instead of going on
/// without a reader or a writer.
inline void must_not_throw(const std::exception_ptr& problem) {
  if (problem) std::rethrow_exception(problem);
}

}  // namespace dlaunch
