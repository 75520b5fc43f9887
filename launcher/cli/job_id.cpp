#include "launcher/cli/job_id.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace dlaunch::launcher::cli {
namespace {

constexpr std::size_t kSuffixLength = sizeof("-20261130-054512-1f3a") - 1;

bool is_suffix(std::string_view text) {
  constexpr std::string_view kPattern = "-dddddddd-dddddd-xxxx";
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    const bool hex = digit || (text[i] >= 'a' && text[i] <= 'f');
    if (kPattern[i] == '-' ? text[i] != '-' : kPattern[i] == 'd' ? !digit : !hex) return false;
  }
  return true;
}

std::string stamp_of(const std::string& id) { return id.substr(id.size() - kSuffixLength); }

}  // namespace

std::string make_job_id(std::string_view name, std::string_view stamp, std::uint16_t dice) {
  std::array<char, 8> tail{};
  std::snprintf(tail.data(), tail.size(), "-%04x", dice);
  return std::string(name) + "-" + std::string(stamp) + tail.data();
}

std::optional<std::string> name_of(std::string_view id) {
  if (id.size() <= kSuffixLength || !is_suffix(id.substr(id.size() - kSuffixLength))) {
    return std::nullopt;
  }
  return std::string(id.substr(0, id.size() - kSuffixLength));
}

std::optional<std::string> find_job(const std::vector<std::string>& ids, std::string_view wanted) {
  std::optional<std::string> newest;
  for (const auto& id : ids) {
    const auto name = name_of(id);
    if (!name) continue;
    if (id == wanted) return id;
    if (!wanted.empty() && *name != wanted) continue;
    if (!newest || stamp_of(id) > stamp_of(*newest)) newest = id;
  }
  return newest;
}

void sort_by_age(std::vector<std::string>& ids) {
  std::stable_sort(ids.begin(), ids.end(), [](const std::string& one, const std::string& other) {
    return stamp_of(one) < stamp_of(other);
  });
}

}  // namespace dlaunch::launcher::cli
