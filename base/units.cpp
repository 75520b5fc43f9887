#include "base/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace dlaunch {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};

constexpr std::array kUnits = {
    Unit{"ns", 1e-9},    Unit{"us", 1e-6},    Unit{"ms", 1e-3},     Unit{"s", 1},
    Unit{"sec", 1},      Unit{"second", 1},   Unit{"seconds", 1},   Unit{"min", 60},
    Unit{"minute", 60},  Unit{"minutes", 60}, Unit{"h", 3600},      Unit{"hour", 3600},
    Unit{"hours", 3600}, Unit{"day", 86'400}, Unit{"days", 86'400}, Unit{"d", 86'400},
};
constexpr double kSecondsMax = 10 * 365.0 * 86'400;

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string with_unit(double value, const char* unit) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", value, unit);
  return text.data();
}

}  // namespace

std::optional<nanoseconds> parse_duration(std::string_view text) {
  text = trim(text);
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  const auto unit_text = trim(text.substr(static_cast<std::size_t>(rest - text.data())));
  for (const auto& unit : kUnits) {
    if (unit.name != unit_text) continue;
    const double total = number * unit.seconds;
    if (total > kSecondsMax) return std::nullopt;
    return nanoseconds(std::llround(total * 1e9));
  }
  return std::nullopt;
}

std::string format_duration(nanoseconds duration) {
  const double total = to_seconds(duration);
  if (total == 0) return "0 s";
  if (total < 1e-3) return with_unit(total * 1e6, "us");
  if (total < 1) return with_unit(total * 1e3, "ms");
  if (total < 120) return with_unit(total, "s");
  if (total < 7200) return with_unit(total / 60, "min");
  if (total < 2 * 86'400) return with_unit(total / 3600, "h");
  return with_unit(total / 86'400, "days");
}

}  // namespace dlaunch
