// Numbers as text, for all views.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace dlaunch::launcher::views {

/// `pattern` is printf's and has one place, for a double.
[[nodiscard]] inline std::string format(const char* pattern, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

}  // namespace dlaunch::launcher::views
