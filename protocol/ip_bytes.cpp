#include "protocol/ip_bytes.h"

#include <charconv>
#include <cstddef>
#include <vector>

namespace dlaunch::protocol {
namespace {

constexpr std::size_t kGroups = 8;
constexpr int kHex = 16;

template <class Number>
bool read_number(std::string_view text, int base, Number& value) {
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value, base);
  return error == std::errc() && end == text.end();
}

/// The groups of "a:b:c", none for an empty text; nullopt: it is no such list.
std::optional<std::vector<std::uint16_t>> groups_of(std::string_view text) {
  std::vector<std::uint16_t> groups;
  while (!text.empty()) {
    const auto colon = text.find(':');
    std::uint16_t group = 0;
    if (groups.size() == kGroups || !read_number(text.substr(0, colon), kHex, group)) return {};
    groups.push_back(group);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
    if (text.empty()) return {};  // a colon at the end
  }
  return groups;
}

Ipv6Bytes bytes_of(const std::vector<std::uint16_t>& front,
                   const std::vector<std::uint16_t>& back) {
  Ipv6Bytes bytes{};
  const auto put = [&](std::size_t at, std::uint16_t group) {
    bytes.at(2 * at) = static_cast<std::uint8_t>(group >> 8U);
    bytes.at(2 * at + 1) = static_cast<std::uint8_t>(group & 0xFFU);
  };
  for (std::size_t i = 0; i < front.size(); ++i) put(i, front[i]);
  for (std::size_t i = 0; i < back.size(); ++i) put(kGroups - back.size() + i, back[i]);
  return bytes;
}

struct Zeros {
  std::size_t begin = kGroups, count = 0;
};
/// The first longest run of two or more.
Zeros longest_zeros(const std::array<unsigned, kGroups>& groups) {
  Zeros longest;
  for (std::size_t begin = 0; begin < kGroups; ++begin) {
    std::size_t end = begin;
    while (end < kGroups && groups.at(end) == 0) ++end;
    if (end - begin >= 2 && end - begin > longest.count) longest = {begin, end - begin};
  }
  return longest;
}

}  // namespace

std::optional<std::uint32_t> ipv4_from_text(std::string_view text) {
  std::uint32_t address = 0;
  auto rest = text;
  for (int part = 0; part < 4; ++part) {
    const auto dot = part < 3 ? rest.find('.') : rest.size();
    std::uint8_t value = 0;
    if (dot == std::string_view::npos || !read_number(rest.substr(0, dot), 10, value)) return {};
    address = (address << 8U) | value;
    rest.remove_prefix(part < 3 ? dot + 1 : dot);
  }
  if (ipv4_text(address) != text) return std::nullopt;  // leading zeros
  return address;
}

std::optional<Ipv6Bytes> ipv6_from_text(std::string_view text) {
  const auto gap = text.find("::");
  const auto front = groups_of(text.substr(0, gap));
  const auto back =
      groups_of(gap == std::string_view::npos ? std::string_view() : text.substr(gap + 2));
  if (!front || !back || front->size() + back->size() > kGroups) return std::nullopt;
  if (gap == std::string_view::npos && front->size() < kGroups) return std::nullopt;
  const auto address = bytes_of(*front, *back);
  if (ipv6_text(address) != text) return std::nullopt;  // another way to write it
  return address;
}

std::string ipv4_text(std::uint32_t address) {
  return std::to_string(address >> 24U) + "." + std::to_string(address >> 16U & 0xFFU) + "." +
         std::to_string(address >> 8U & 0xFFU) + "." + std::to_string(address & 0xFFU);
}

std::string ipv6_text(const Ipv6Bytes& address) {
  std::array<unsigned, kGroups> groups{};
  for (std::size_t i = 0; i < kGroups; ++i) {
    groups.at(i) = address.at(2 * i) * 256U + address.at(2 * i + 1);
  }
  const auto zeros = longest_zeros(groups);
  std::string text;
  for (std::size_t i = 0; i < kGroups; ++i) {
    if (i == zeros.begin) {
      text += "::";
      i += zeros.count - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    std::array<char, 4> digits{};
    const auto made =
        std::to_chars(digits.data(), digits.data() + digits.size(), groups.at(i), kHex);
    text.append(digits.data(), made.ptr);
  }
  return text;
}

}  // namespace dlaunch::protocol
