#include "supervisor/host/io/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/io/files.h"

namespace dlaunch::supervisor::host {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFirstFailure = "/first-failure";
constexpr std::string_view kFolder = "generation-";

struct Name {
  std::uint64_t rank = 0;
  std::uint64_t number = 0;  ///< which file of this rank
};
struct Entry {
  Name name;
  fs::path path;
  std::uint64_t bytes = 0;
  fs::file_time_type written;
};

std::optional<std::uint64_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// "rank-7.log" or "rank-7.3.log".
std::optional<Name> name_of(std::string_view text) {
  constexpr std::string_view kBegin = "rank-", kEnd = ".log";
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  const auto rank = take_number(text);
  if (!rank) return std::nullopt;
  if (text == kEnd) return Name{*rank, 0};
  if (!text.starts_with('.')) return std::nullopt;
  text.remove_prefix(1);
  const auto number = take_number(text);
  return number && text == kEnd ? std::optional(Name{*rank, *number}) : std::nullopt;
}

std::vector<Entry> entries_of(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code code;
  for (const auto& file : fs::directory_iterator(folder, code)) {
    const auto name = name_of(file.path().filename().string());
    if (!name) continue;
    entries.push_back({*name, file.path(), file.file_size(code), file.last_write_time(code)});
  }
  return entries;
}

std::uint64_t bytes_of(const std::vector<Entry>& entries) {
  std::uint64_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.bytes;
  return bytes;
}

/// Returns what is left.
std::uint64_t trim_newest(std::vector<Entry> entries, std::uint64_t bytes_max) {
  auto bytes = bytes_of(entries);
  std::map<std::uint64_t, std::uint64_t> present;
  for (const auto& entry : entries) {
    auto& newest = present[entry.name.rank];
    newest = std::max(newest, entry.name.number);
  }
  const auto order = [](const Entry& entry) {
    return std::pair(entry.name.number == 0, entry.written);
  };
  std::sort(entries.begin(), entries.end(),
            [&](const Entry& a, const Entry& b) { return order(a) < order(b); });
  for (const auto& entry : entries) {
    if (bytes <= bytes_max) break;
    if (entry.name.number == present[entry.name.rank]) continue;
    std::error_code code;
    if (fs::remove(entry.path, code)) bytes -= entry.bytes;
  }
  return bytes;
}

}  // namespace

Result<FileDescriptor> open_log_file(const std::string& directory, Generation generation,
                                     Rank rank) {
  const auto folder = directory + "/" + std::string(kFolder) + std::to_string(generation.value);
  // Not by the process's mask: workers inherit that, and their files are their own business.
  for (const auto& path : {directory, folder}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return failure_from_errno(errno, "making " + path);
    }
  }
  std::uint64_t number = 0;
  for (const auto& entry : entries_of(folder)) {
    if (entry.name.rank == rank.value) number = std::max(number, entry.name.number + 1);
  }
  const auto path = folder + "/rank-" + std::to_string(rank.value) +
                    (number == 0 ? "" : "." + std::to_string(number)) + ".log";
  FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!file.is_open()) return failure_from_errno(errno, "creating " + path);
  return file;
}

void keep_logs(const std::string& directory, Generation generation) {
  const FileDescriptor file(
      ::open((directory + kFirstFailure).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  // Without it the logs may be trimmed some day; the incident has their last lines.
  if (file.is_open()) (void)write_all(file.get(), std::to_string(generation.value));
}

void trim_logs(const std::string& directory, std::uint64_t bytes_max) {
  const auto marked = read_file(directory + kFirstFailure, 32).value_or("");
  const auto keep = std::strtoull(marked.c_str(), nullptr, 10);
  std::error_code code;
  std::map<std::uint64_t, std::pair<fs::path, std::uint64_t>> generations;
  std::uint64_t total = 0;
  for (const auto& folder : fs::directory_iterator(directory, code)) {
    const auto name = folder.path().filename().string();
    if (!name.starts_with(kFolder)) continue;
    const auto bytes = bytes_of(entries_of(folder.path()));
    total += bytes;
    generations[std::strtoull(name.c_str() + kFolder.size(), nullptr, 10)] = {folder.path(), bytes};
  }
  if (generations.empty()) return;
  const auto& [newest, last] = *generations.rbegin();
  if (last.second > bytes_max / 2) {
    total -= last.second;
    total += trim_newest(entries_of(last.first), bytes_max / 2);
  }
  for (const auto& [number, entry] : generations) {
    if (total <= bytes_max || number == newest) return;
    if (number == keep) continue;
    fs::remove_all(entry.first, code);
    total -= entry.second;
  }
}

}  // namespace dlaunch::supervisor::host
