// Columns of text, aligned.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace dlaunch::launcher::views {

/// Rows of equal length; the first is the heading. Two spaces between columns, none at line ends.
[[nodiscard]] std::string table(const std::vector<std::vector<std::string>>& rows);

/// Consecutive numbers as ranges: "0-3,6".
[[nodiscard]] std::string ranges(const std::vector<std::size_t>& numbers);

}  // namespace dlaunch::launcher::views
