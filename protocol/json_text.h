// Writes JSON that may quote what programs, hosts and files said.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace dlaunch::protocol {

/// On one line, or indented by `indent`. What is no UTF-8 in its texts is replaced: plain `dump`
/// throws for it, and whoever prints such a byte must not end us.
[[nodiscard]] inline std::string json_text(const nlohmann::json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace dlaunch::protocol
