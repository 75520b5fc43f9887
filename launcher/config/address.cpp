#include "launcher/config/address.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dlaunch::launcher::config {
namespace {

constexpr std::size_t kHostNameMax = 253;
constexpr std::size_t kUserNameMax = 128;
constexpr std::size_t kInterfaceNameMax = 15;
constexpr int kGroupsOfIpv6 = 8;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool all_of(std::string_view text, std::string_view further) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_digit(c) || is_letter(c) || further.find(c) != std::string_view::npos;
  });
}

bool is_number_up_to(std::string_view text, std::uint32_t max) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value <= max;
}

bool is_ipv4(std::string_view text) {
  for (int part = 0; part < 4; ++part) {
    const auto dot = part < 3 ? text.find('.') : text.size();
    if (dot == std::string_view::npos) return false;
    const auto digits = text.substr(0, dot);
    if (digits.empty() || digits.size() > 3 || !is_number_up_to(digits, 255)) return false;
    if (digits.size() > 1 && digits.front() == '0') return false;
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return text.empty();
}

/// The groups of "a:b:c"; -1: not such a list. The last may be an IPv4 address, which counts twice.
int count_groups(std::string_view text) {
  if (text.empty()) return 0;
  int groups = 0;
  while (true) {
    const auto colon = text.find(':');
    const auto group = text.substr(0, colon);
    if (colon == std::string_view::npos && is_ipv4(group)) return groups + 2;
    if (group.empty() || group.size() > 4 || !std::all_of(group.begin(), group.end(), is_hex)) {
      return -1;
    }
    ++groups;
    if (colon == std::string_view::npos) return groups;
    text.remove_prefix(colon + 1);
  }
}

bool is_ipv6(std::string_view text) {
  const auto percent = text.find('%');
  if (percent != std::string_view::npos) {
    if (!is_interface_name(text.substr(percent + 1))) return false;
    text = text.substr(0, percent);
  }
  const auto gap = text.find("::");
  if (gap == std::string_view::npos) return count_groups(text) == kGroupsOfIpv6;
  const auto before = count_groups(text.substr(0, gap));
  const auto after = count_groups(text.substr(gap + 2));
  return before >= 0 && after >= 0 && before + after < kGroupsOfIpv6;
}

bool is_one_jump(std::string_view text) {
  const auto at = text.rfind('@');
  if (at != std::string_view::npos) {
    if (!is_user_name(text.substr(0, at))) return false;
    text.remove_prefix(at + 1);
  }
  if (text.starts_with("[")) {
    const auto close = text.find(']');
    if (close == std::string_view::npos || !is_ipv6(text.substr(1, close - 1))) return false;
    text.remove_prefix(close + 1);
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    if (!is_address(text.substr(0, colon))) return false;
    text.remove_prefix(colon);
  }
  return text.empty() || (text.front() == ':' && is_number_up_to(text.substr(1), 65'535));
}

}  // namespace

bool is_numeric_address(std::string_view text) { return is_ipv4(text) || is_ipv6(text); }

bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= kHostNameMax && text.front() != '-' &&
         text.front() != '.' && all_of(text, "-_.");
}

bool is_address(std::string_view text) {
  if (is_numeric_address(text)) return true;
  const bool looks_numeric =
      std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.'; }) &&
      text.find('.') != std::string_view::npos;
  return is_host_name(text) && !looks_numeric;
}

bool is_user_name(std::string_view text) {
  return !text.empty() && text.size() <= kUserNameMax && text.front() != '-' &&
         all_of(text, "-_.@\\$+");
}

bool is_interface_name(std::string_view text) {
  return !text.empty() && text.size() <= kInterfaceNameMax && text.front() != '-' && text != "." &&
         text != ".." && all_of(text, "-_.@:");
}

bool is_jump(std::string_view text) {
  while (true) {
    const auto comma = text.find(',');
    if (!is_one_jump(text.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace dlaunch::launcher::config
