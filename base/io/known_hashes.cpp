#include "base/io/known_hashes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/io/clock.h"
#include "base/io/files.h"

namespace dlaunch {
namespace {

constexpr std::size_t kEntriesMax = 64;  // the trainer and the data of a user's last jobs
constexpr std::size_t kFileBytesMax = std::size_t{512} << 10U;
constexpr double kSettledSeconds = 3;  // the coarsest times: 2 s on FAT, a tick elsewhere

std::string marks_of(const struct stat& status) {
  const auto time = [](const timespec& stamp) {
    return std::to_string(stamp.tv_sec) + "." + std::to_string(stamp.tv_nsec);
  };
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) + ":" +
         std::to_string(status.st_size) + ":" + time(status.st_mtim) + ":" + time(status.st_ctim);
}

}  // namespace

KnownHashes::KnownHashes(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  const auto text = read_file(path_, kFileBytesMax).value_or("");
  for (std::size_t begin = 0; begin < text.size() && entries_.size() < kEntriesMax;) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    begin = end + 1;
    const auto marks = line.find(' ');
    const auto hash = marks == std::string::npos ? marks : line.find(' ', marks + 1);
    if (hash != std::string::npos) entries_[line.substr(hash + 1)] = line.substr(0, hash);
  }
}

std::optional<std::string> KnownHashes::find(const std::string& file,
                                             const struct stat& status) const {
  const auto found = entries_.find(file);
  const auto marks = marks_of(status) + " ";
  if (found == entries_.end() || !found->second.starts_with(marks)) return std::nullopt;
  return found->second.substr(marks.size());
}

void KnownHashes::add(const std::string& file, const struct stat& status, const std::string& hash,
                      double now) {
  const auto newest = std::max(status.st_mtim.tv_sec, status.st_ctim.tv_sec);
  struct stat after {};
  const bool settled = now - static_cast<double>(newest) > kSettledSeconds &&
                       ::stat(file.c_str(), &after) == 0 && marks_of(after) == marks_of(status);
  if (path_.empty() || !settled || file.find('\n') != std::string::npos) return;
  if (entries_.size() >= kEntriesMax && !entries_.contains(file)) entries_.erase(entries_.begin());
  entries_[file] = marks_of(status) + " " + hash;
  changed_ = true;
}

void KnownHashes::save() const {
  if (!changed_) return;
  std::string text;
  for (const auto& [file, entry] : entries_) text += entry + " " + file + "\n";
  // Half a file, or none, only has fewer lines that are understood.
  static_cast<void>(swap_file(path_, text));
}

Result<HashedFile> hash_file(const std::string& path, KnownHashes& known) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return failure_from_errno(errno, "looking at " + path);
  if (auto before = known.find(path, status)) {
    return HashedFile{std::move(*before), static_cast<std::uint64_t>(status.st_size)};
  }
  auto hashed = hash_file(path);
  if (hashed) known.add(path, status, hashed->hash, unix_now());
  return hashed;
}

}  // namespace dlaunch
