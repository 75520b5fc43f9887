#include "trainer/checkpoint/json_cursor.h"

#include <charconv>
#include <limits>
#include <utility>

namespace dlaunch::checkpoint {
namespace {

void append_utf8(std::string& into, std::uint32_t point) {
  const auto tail = [&](int shift) { into += static_cast<char>(0x80 | ((point >> shift) & 0x3f)); };
  if (point < 0x80) {
    into += static_cast<char>(point);
  } else if (point < 0x800) {
    into += static_cast<char>(0xc0 | (point >> 6));
    tail(0);
  } else if (point < 0x10000) {
    into += static_cast<char>(0xe0 | (point >> 12));
    tail(6);
    tail(0);
  } else {
    into += static_cast<char>(0xf0 | (point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Bytes of the character that starts with `lead`, and the least point it may encode.
struct Sequence {
  std::size_t bytes;
  std::uint32_t point_min;
};

Sequence sequence_of(unsigned char lead) {
  if (lead < 0x80) return {1, 0};
  if ((lead & 0xe0) == 0xc0) return {2, 0x80};
  if ((lead & 0xf0) == 0xe0) return {3, 0x800};
  if ((lead & 0xf8) == 0xf0) return {4, 0x10000};
  return {0, 0};
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const Sequence sequence = sequence_of(lead);
    if (sequence.bytes == 0 || sequence.bytes > text.size()) return false;
    std::uint32_t point = sequence.bytes == 1 ? lead : lead & (0x7fU >> sequence.bytes);
    for (std::size_t i = 1; i < sequence.bytes; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xc0) != 0x80) return false;
      point = (point << 6) | (byte & 0x3f);
    }
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    if (point < sequence.point_min || point > 0x10ffff || surrogate) return false;
    text.remove_prefix(sequence.bytes);
  }
  return true;
}

void JsonCursor::fail(std::string trouble) {
  if (failed()) return;
  trouble_ = std::move(trouble) + " at byte " + std::to_string(at_);
}

void JsonCursor::skip_space() {
  constexpr std::string_view kSpace = " \t\r\n";
  while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) ++at_;
}

bool JsonCursor::next_is(char wanted) {
  if (failed()) return false;
  skip_space();
  if (at_ >= text_.size() || text_[at_] != wanted) return false;
  ++at_;
  return true;
}

bool JsonCursor::expect(char wanted) {
  if (next_is(wanted)) return true;
  fail(std::string("'") + wanted + "' was expected");
  return false;
}

std::optional<std::string> JsonCursor::string(std::size_t bytes_max) {
  if (!expect('"')) return std::nullopt;
  std::string value;
  while (true) {
    if (at_ >= text_.size()) {
      fail("a string does not end");
      return std::nullopt;
    }
    const char next = text_[at_++];
    if (next == '"') break;
    if (static_cast<unsigned char>(next) < 0x20) {
      fail("a string has a control character");
      return std::nullopt;
    }
    if (next == '\\') {
      if (!take_escape(value)) return std::nullopt;
    } else {
      value += next;
    }
    if (value.size() > bytes_max) {
      fail("a string is longer than " + std::to_string(bytes_max) + " bytes");
      return std::nullopt;
    }
  }
  if (!is_utf8(value)) {
    fail("a string is not UTF-8");
    return std::nullopt;
  }
  return value;
}

bool JsonCursor::take_escape(std::string& into) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char next = at_ < text_.size() ? text_[at_++] : '\0';
  const auto found = kEscapes.find(next);
  if (next != '\0' && found != std::string_view::npos) {
    into += kMeanings[found];
    return true;
  }
  if (next != 'u') {
    fail("a string has an escape that JSON does not know");
    return false;
  }
  auto point = take_hex();
  if (point && *point >= 0xd800 && *point <= 0xdbff) {
    const bool paired = text_.substr(at_).starts_with("\\u");
    if (paired) at_ += 2;
    const auto low = paired ? take_hex() : std::nullopt;
    const bool fits = low && *low >= 0xdc00 && *low <= 0xdfff;
    point =
        fits ? std::optional(0x10000 + ((*point - 0xd800) << 10) + (*low - 0xdc00)) : std::nullopt;
  }
  const bool surrogate = point && *point >= 0xd800 && *point <= 0xdfff;
  if (!point || *point == 0 || surrogate) {
    fail("a string has a \\u escape that is no character");
    return false;
  }
  append_utf8(into, *point);
  return true;
}

std::optional<std::uint32_t> JsonCursor::take_hex() {
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  std::uint32_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) return std::nullopt;
  at_ += 4;
  return value;
}

std::optional<std::uint64_t> JsonCursor::number() {
  if (failed()) return std::nullopt;
  skip_space();
  const std::string_view rest = text_.substr(at_);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  const auto length = static_cast<std::size_t>(end - rest.data());
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const bool leading_zero = length > 1 && rest.front() == '0';
  const bool goes_on =
      length < rest.size() && std::string_view(".eE").find(rest[length]) != std::string_view::npos;
  if (error != std::errc() || value > kMost || leading_zero || goes_on) {
    fail("a whole number from 0 to 2^63 - 1 was expected");
    return std::nullopt;
  }
  at_ += length;
  return value;
}

bool JsonCursor::expect_end() {
  if (failed()) return false;
  // The format pads with spaces only.
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  if (at_ == text_.size()) return true;
  fail("something follows the header");
  return false;
}

}  // namespace dlaunch::checkpoint
