#include "supervisor/host/io/worker_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "base/io/files.h"
#include "base/utf8.h"
#include "protocol/limits.h"

namespace dlaunch::supervisor::host {

namespace fs = std::filesystem;

namespace {
constexpr const char* kFirstFailure = "/first-failure";
}

Result<WorkerLog> WorkerLog::open(const std::string& directory, Generation generation, Rank rank) {
  const auto folder = directory + "/generation-" + std::to_string(generation.value);
  // Not by the process's mask: workers inherit that, and their files are their own business.
  for (const auto& path : {directory, folder}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return failure_from_errno(errno, "making " + path);
    }
  }
  const auto name = folder + "/rank-" + std::to_string(rank.value);
  constexpr int kTriesMax = 100;
  for (int attempt = 0; attempt < kTriesMax; ++attempt) {
    const auto path = name + (attempt == 0 ? "" : "." + std::to_string(attempt)) + ".log";
    FileDescriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
    if (file.is_open()) return WorkerLog(std::move(file));
    if (errno != EEXIST) return failure_from_errno(errno, "creating " + path);
  }
  return failure(std::errc::file_exists, "creating " + name + ".log");
}

void WorkerLog::keep(std::string_view line) {
  last_lines_.push_back(to_utf8(line, protocol::kLastLineBytesMax));
  if (last_lines_.size() > protocol::kLastLinesMax) last_lines_.pop_front();
}

WorkerLog::Passed WorkerLog::append(std::string_view bytes, std::size_t bytes_max) {
  // A disk that is full costs the file, never the worker: its lines still go to the controller.
  (void)write_all(file_.get(), bytes);
  Passed passed;
  partial_.append(bytes);
  std::size_t begin = 0;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', begin)) {
    const auto line = to_utf8(std::string_view(partial_).substr(begin, end - begin));
    keep(line);
    if (passed.text.size() + line.size() + 1 <= bytes_max) {
      passed.text.append(line).push_back('\n');
    } else {
      ++passed.dropped;
    }
    begin = end + 1;
  }
  partial_.erase(0, begin);
  if (partial_.size() > protocol::kLogFrameBytesMax) {  // a progress bar without line ends
    keep(partial_);
    partial_.clear();
    ++passed.dropped;
  }
  return passed;
}

void WorkerLog::finish() {
  if (!partial_.empty()) keep(std::exchange(partial_, ""));
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
    if (!name.starts_with("generation-")) continue;
    std::uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(folder.path(), code)) {
      bytes += file.is_regular_file(code) ? file.file_size(code) : 0;
    }
    total += bytes;
    generations[std::strtoull(name.c_str() + 11, nullptr, 10)] = {folder.path(), bytes};
  }
  for (const auto& [number, entry] : generations) {
    if (total <= bytes_max || number == generations.rbegin()->first) return;
    if (number == keep) continue;
    fs::remove_all(entry.first, code);
    total -= entry.second;
  }
}

}  // namespace dlaunch::supervisor::host
