// Numeric addresses as bytes, and back to the text that they came from.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::protocol {

using Ipv6Bytes = std::array<std::uint8_t, 16>;

/// nullopt unless `text` is exactly what the functions below would make of the answer.
[[nodiscard]] std::optional<std::uint32_t> ipv4_from_text(std::string_view text);
[[nodiscard]] std::optional<Ipv6Bytes> ipv6_from_text(std::string_view text);

/// 0x0a000001: "10.0.0.1".
[[nodiscard]] std::string ipv4_text(std::uint32_t address);
/// The shortest form, small letters, no dotted end (RFC 5952).
[[nodiscard]] std::string ipv6_text(const Ipv6Bytes& address);

}  // namespace dlaunch::protocol
