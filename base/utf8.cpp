#include "base/utf8.h"

namespace dlaunch {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

constexpr bool is_continuation(unsigned char byte) { return (byte & 0xC0U) == 0x80U; }

struct Character {
  std::size_t bytes = 1;  ///< of the character, or of the beginning that cannot become one
  bool valid = false;
};

/// What the second byte may be shuts out overlong forms, surrogates and what is above U+10FFFF.
bool may_follow(unsigned char lead, unsigned char second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0 && second <= 0xBF;
    case 0xED:
      return second >= 0x80 && second <= 0x9F;
    case 0xF0:
      return second >= 0x90 && second <= 0xBF;
    case 0xF4:
      return second >= 0x80 && second <= 0x8F;
    default:
      return is_continuation(second);
  }
}

Character first_character(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto lead = at(0);
  if (lead < 0x80) return {1, true};
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || bytes.size() < 2 || !may_follow(lead, at(1))) return {1, false};
  std::size_t have = 2;
  while (have < length && have < bytes.size() && is_continuation(at(have))) ++have;
  return {have, have == length};
}

/// The beginning that needs no replacement.
std::string_view valid_beginning(std::string_view bytes) {
  std::size_t end = 0;
  while (end < bytes.size()) {
    const auto next = first_character(bytes.substr(end));
    if (!next.valid) break;
    end += next.bytes;
  }
  return bytes.substr(0, end);
}

}  // namespace

bool is_utf8(std::string_view bytes) { return valid_beginning(bytes).size() == bytes.size(); }

std::string to_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (true) {
    const auto good = valid_beginning(bytes);
    text.append(good);
    bytes.remove_prefix(good.size());
    if (bytes.empty()) return text;
    text.append(kReplacement);
    bytes.remove_prefix(first_character(bytes).bytes);
  }
}

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  constexpr std::size_t kContinuationsMax = 3;
  for (std::size_t back = 0; back <= kContinuationsMax && back <= bytes_max; ++back) {
    const auto end = bytes_max - back;
    if (!is_continuation(static_cast<unsigned char>(text[end]))) return text.substr(0, end);
  }
  return text.substr(0, bytes_max);  // no character is so long: this is no text
}

std::string to_utf8(std::string_view bytes, std::size_t bytes_max) {
  // What is far beyond the cut need not be looked at.
  const auto text = to_utf8(cut_utf8(bytes, bytes_max));
  return std::string(cut_utf8(text, bytes_max));
}

}  // namespace dlaunch
