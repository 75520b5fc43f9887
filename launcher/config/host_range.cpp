#include "launcher/config/host_range.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>

namespace dlaunch::launcher::config {
namespace {

constexpr std::size_t kDigitsMax = 9;
constexpr std::size_t kNameBytesMax = 255;

tl::unexpected<Error> wrong(std::string_view text, const std::string& why) {
  return failure(std::error_code{}, "`" + std::string(text) + "` " + why);
}

std::optional<std::uint64_t> number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  return whole && digits.size() <= kDigitsMax ? std::optional(value) : std::nullopt;
}

std::string padded(std::uint64_t value, std::size_t width) {
  auto text = std::to_string(value);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

/// "01-04,7" → 01 02 03 04 7
Result<std::vector<std::string>> expand_bracket(std::string_view whole, std::string_view inside) {
  std::vector<std::string> values;
  while (true) {
    const auto comma = inside.find(',');
    const auto part = inside.substr(0, comma);
    const auto dash = part.find('-');
    const auto first = number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last)
      return wrong(whole, "has a bracket that is no list of numbers like [01-04,7]");
    if (*last < *first) return wrong(whole, "has an empty range: the end is below the beginning");
    if (*last - *first >= kHostNamesMax || values.size() + (*last - *first) >= kHostNamesMax) {
      return wrong(whole, "has more than " + std::to_string(kHostNamesMax) + " names");
    }
    const auto width = part.substr(0, dash).size();
    for (auto value = *first; value <= *last; ++value) values.push_back(padded(value, width));
    if (comma == std::string_view::npos) return values;
    inside.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<std::vector<std::string>> expand_range(std::string_view text) {
  std::vector<std::string> names{""};
  auto rest = text;
  while (!rest.empty()) {
    const auto open = rest.find_first_of("[]");
    if (names.front().size() + std::min(open, rest.size()) > kNameBytesMax) {
      return wrong(text.substr(0, kNameBytesMax),
                   "… is longer than " + std::to_string(kNameBytesMax) + " characters");
    }
    for (auto& name : names) name += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = rest.find_first_of("[]", open + 1);
    if (rest[open] == ']' || close == std::string_view::npos || rest[close] == '[') {
      return wrong(text, "has a bracket that is not closed, or not opened");
    }
    const auto values = expand_bracket(text, rest.substr(open + 1, close - open - 1));
    if (!values) return values;
    if (names.size() * values->size() > kHostNamesMax) {
      return wrong(text, "has more than " + std::to_string(kHostNamesMax) + " names");
    }
    std::vector<std::string> longer;
    for (const auto& name : names) {
      for (const auto& value : *values) longer.push_back(name + value);
    }
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  if (names.size() == 1 && names.front().empty()) return wrong(text, "is an empty name");
  return names;
}

Result<std::vector<std::string>> expand_list(std::string_view text) {
  std::vector<std::string> names;
  std::size_t depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']' && depth > 0) --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    auto part = expand_range(text.substr(begin, i - begin));
    if (!part) return part;
    if (names.size() + part->size() > kHostNamesMax) {
      return wrong(text, "has more than " + std::to_string(kHostNamesMax) + " names");
    }
    names.insert(names.end(), part->begin(), part->end());
    begin = i + 1;
  }
  return names;
}

}  // namespace dlaunch::launcher::config
