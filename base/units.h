// Durations as users write and read them: a number and a unit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace dlaunch {

/// "600 ms", "5s", "10 min", "1.5 h", "2 days"; a number without a unit is refused, as is anything
/// negative or above ten years. nullopt: not a duration.
[[nodiscard]] std::optional<nanoseconds> parse_duration(std::string_view text);

/// The shortest exact form a person would write: "600 ms", "1.5 s", "10 min", "2 h".
[[nodiscard]] std::string format_duration(nanoseconds duration);

}  // namespace dlaunch
