// Bracket ranges of host names: "gpu[01-04,7]".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dlaunch::launcher::config {

/// Over all tables of one hosts file.
constexpr std::size_t kHostNamesMax = 65'536;

/// All names in order; several brackets multiply, the last one runs fastest; zero padding is kept.
/// An error (empty or backward range, unbalanced bracket, more than kHostNamesMax names) says what
/// is wrong. A text without brackets is itself.
[[nodiscard]] Result<std::vector<std::string>> expand_range(std::string_view text);

/// Splits at commas outside brackets, as Slurm's node lists have them, and expands each part.
[[nodiscard]] Result<std::vector<std::string>> expand_list(std::string_view text);

}  // namespace dlaunch::launcher::config
