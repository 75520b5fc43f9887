// What is wrong in a file, where, and what was expected: all of it at once.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher::config {

/// The line of what is said of a file after all else; it is not shown.
constexpr std::uint32_t kAfterAllLines = std::numeric_limits<std::uint32_t>::max();

struct Problem {
  std::string file;
  std::uint32_t line = 0;  ///< from 1; 0: the file as a whole
  std::uint32_t column = 0;
  std::string what;      ///< "unknown key `stepps`"
  std::string expected;  ///< "did you mean `steps`?"; may be empty
};

/// Where a key is, for problems that are only seen later.
struct Place {
  std::uint32_t line = 0;  ///< 0: it is not in the file
  std::uint32_t column = 0;

  /// Where a key stands is no part of what a file says.
  friend bool operator==(const Place&, const Place&) { return true; }
};

/// "train.toml:3:1: unknown key `stepps`; did you mean `steps`?"
[[nodiscard]] std::string to_text(const Problem& problem);
/// One line each, sorted by place.
[[nodiscard]] std::string to_text(std::vector<Problem> problems);

/// The known word nearest to `word`, when it is near enough to be a slip; else empty.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace dlaunch::launcher::config
