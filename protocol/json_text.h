// JSON that comes from outside, and JSON that quotes what programs, hosts and files said.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dlaunch::protocol {

/// Our messages need four levels and the trainer's settings three.
constexpr std::size_t kJsonDepthMax = 64;

/// Discarded where the text is no JSON or nests deeper than `kJsonDepthMax`: reading takes no stack
/// for each level, but copying and writing do.
[[nodiscard]] nlohmann::json read_json(std::string_view text);

/// On one line, or indented by `indent`. What is no UTF-8 in its texts is replaced: plain `dump`
/// throws for it, and whoever prints such a byte must not end us.
[[nodiscard]] inline std::string json_text(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dlaunch::protocol
