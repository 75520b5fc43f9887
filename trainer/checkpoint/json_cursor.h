// A reader for the little JSON that a safetensors header may hold; anything else is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::checkpoint {

/// Reads token by token; the caller knows the grammar, so nesting is as deep as the caller and no
/// deeper. After the first failure every call fails; `trouble` says what and at which byte.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  /// True and past it if the next character, after white space, is `wanted`.
  [[nodiscard]] bool next_is(char wanted);
  /// The same, and a failure if it is not.
  [[nodiscard]] bool expect(char wanted);
  /// A string of at most `bytes_max` bytes, unescaped; valid UTF-8 without control characters.
  [[nodiscard]] std::optional<std::string> string(std::size_t bytes_max);
  /// A whole number below 2^63 without sign, fraction, exponent or leading zero.
  [[nodiscard]] std::optional<std::uint64_t> number();
  /// True if only spaces are left.
  [[nodiscard]] bool expect_end();

  void fail(std::string trouble);
  [[nodiscard]] bool failed() const { return !trouble_.empty(); }
  /// "a string was expected at byte 17"
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  void skip_space();
  [[nodiscard]] bool take_escape(std::string& into);
  [[nodiscard]] std::optional<std::uint32_t> take_hex();

  std::string_view text_;
  std::size_t at_ = 0;
  std::string trouble_;
};

/// True for well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace dlaunch::checkpoint
