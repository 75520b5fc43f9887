#include "launcher/config/set_override.h"

#include <optional>
#include <utility>
#include <vector>

namespace dlaunch::launcher::config {
namespace {

constexpr std::size_t kOverrideBytesMax = 64 * 1024;
constexpr std::size_t kPartsMax = 8;

std::optional<toml::table> parse(const std::string& text, const std::string& place) {
  try {
    return toml::parse(text, place);
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// "trainer.model.layers" → its parts; empty: no such path.
std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const auto dot = path.find('.');
    const auto part = without_blanks(path.substr(0, dot));
    if (part.empty() || parts.size() == kPartsMax) return {};
    parts.emplace_back(part);
    if (dot == std::string_view::npos) return parts;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

void set_override(toml::table& document, const std::string& override, Reading& reading) {
  const auto place = "--set " + override.substr(0, override.find('\n'));
  toml::source_region region;
  region.path = std::make_shared<const std::string>(place);
  const auto equals = override.find('=');
  const auto parts =
      parts_of(std::string_view(override).substr(0, std::min(equals, override.size())));
  if (equals == std::string::npos || parts.empty() || override.size() > kOverrideBytesMax) {
    return reading.add(region, "not an override", "expected --set job.name=x");
  }
  const auto text = override.substr(equals + 1);
  toml::table* table = &document;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    auto* below = table->get(parts[i]);
    if (below == nullptr) {
      auto made = parse("below = {}", place);
      below =
          &table->insert(parts[i], std::move(*made->get_as<toml::table>("below"))).first->second;
    }
    table = below->as_table();
    if (table == nullptr) return reading.add(region, "`" + parts[i] + "` is no table");
  }
  const auto value_of = [&](const std::string& written) {
    auto parsed = parse("value = " + written, place);
    // A text with a line break could bring further keys along.
    return parsed && parsed->size() == 1 && parsed->contains("value") ? std::move(parsed)
                                                                      : std::nullopt;
  };
  auto value = text.size() <= kOverrideBytesMax ? value_of(text) : std::nullopt;
  if (!value) {
    // Parsed, so that the value knows its place.
    value = value_of("''");
    auto& node = *value->get_as<std::string>("value");
    node.get() = text;
  }
  // As an rvalue: a copy would lose its place.
  std::move(*value->get("value")).visit([&](auto&& node) {
    table->erase(parts.back());
    table->insert(toml::key(parts.back(), toml::source_region(region)),
                  std::forward<decltype(node)>(node));
  });
}

}  // namespace dlaunch::launcher::config
