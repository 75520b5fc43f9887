#include "supervisor/host/io/file_progress.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;

// A directory with more checkpoints than this is looked at in part: progress is still seen.
constexpr std::size_t kPathsMax = 10'000;

std::vector<std::string> expand(const std::vector<std::string>& places, const std::string& word) {
  std::vector<std::string> found;
  std::error_code code;
  const bool plain = word.find_first_of("*?[") == std::string::npos;
  for (const auto& place : places) {
    if (plain) {
      if (fs::exists(place + "/" + word, code)) found.push_back(place + "/" + word);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(place.empty() ? "/" : place, code)) {
      const auto name = entry.path().filename().string();
      if (found.size() < kPathsMax && ::fnmatch(word.c_str(), name.c_str(), FNM_PERIOD) == 0) {
        found.push_back(place + "/" + name);
      }
    }
  }
  return found;
}

/// The last number of `text`.
std::optional<std::uint64_t> number_in(std::string_view text) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const auto end = std::find_if(text.rbegin(), text.rend(), is_digit).base();
  auto begin = end;
  while (begin != text.begin() && is_digit(*(begin - 1))) --begin;
  std::uint64_t number = 0;
  if (begin == end || std::from_chars(begin, end, number).ec != std::errc{}) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::uint64_t> newest_checkpoint(const std::string& pattern) {
  const auto wildcard = pattern.find_first_of("*?[");
  const auto fixed = wildcard == std::string::npos ? 0 : pattern.rfind('/', wildcard) + 1;
  std::vector<std::string> places = {""};
  for (std::size_t begin = 1; begin <= pattern.size() && !places.empty();) {
    const auto end = std::min(pattern.find('/', begin), pattern.size());
    if (end > begin) places = expand(places, pattern.substr(begin, end - begin));
    begin = end + 1;
  }
  if (places.empty()) return std::nullopt;
  std::optional<std::uint64_t> newest;
  for (const auto& path : places) {
    const auto number = number_in(std::string_view(path).substr(fixed));
    if (number) newest = std::max(newest.value_or(0), *number);
  }
  return newest ? newest : places.size();
}

}  // namespace dlaunch::supervisor::host
