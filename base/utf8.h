// Text of others made fit for protobuf and JSON, which take UTF-8 only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dlaunch {

[[nodiscard]] bool is_utf8(std::string_view bytes);

/// `bytes` with each sequence that is no UTF-8 replaced by one U+FFFD: up to three times as long.
[[nodiscard]] std::string to_utf8(std::string_view bytes);

/// The longest beginning of at most `bytes_max` bytes that does not end inside a character.
[[nodiscard]] std::string_view cut_utf8(std::string_view text, std::size_t bytes_max);

/// Both: what a program wrote, as it may be passed on.
[[nodiscard]] std::string to_utf8(std::string_view bytes, std::size_t bytes_max);

}  // namespace dlaunch
