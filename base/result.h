// How an expected failure is returned: the code for programs, what was being done for people.
#pragma once

#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace dlaunch {

struct Error {
  std::error_code code;
  std::string doing;  ///< "reading the hello from host n017"; ends without a full stop

  /// "reading the hello from host n017: Connection refused"
  [[nodiscard]] std::string text() const { return code ? doing + ": " + code.message() : doing; }
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> failure(std::error_code code, std::string doing) {
  return tl::unexpected<Error>(Error{code, std::move(doing)});
}
/// For failures that have no system code of their own; `doing` says all.
[[nodiscard]] inline tl::unexpected<Error> failure(std::errc code, std::string doing) {
  return failure(std::make_error_code(code), std::move(doing));
}
/// Takes the code of `errno`; call it right after the failed call.
[[nodiscard]] inline tl::unexpected<Error> failure_from_errno(int number, std::string doing) {
  return failure(std::error_code(number, std::generic_category()), std::move(doing));
}

}  // namespace dlaunch
