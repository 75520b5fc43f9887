#include "supervisor/host/io/process_scan.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/io/files.h"

namespace dlaunch::supervisor::host {
namespace {

constexpr std::size_t kEnvironmentBytesMax = 512 * 1024;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

pid_t pid_of(std::string_view name) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc{} && end == name.data() + name.size() ? pid : 0;
}

constexpr std::uint64_t kPfExiting = 0x4;  // of the kernel's task flags, field 9 of stat

struct PlaceInTree {
  char state = '?';
  pid_t parent = 0;
  std::uint64_t flags = 0;
};

std::optional<PlaceInTree> place_of(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  const auto end_of_name = stat ? stat->rfind(')') : std::string::npos;
  if (end_of_name == std::string::npos || end_of_name + 4 >= stat->size()) return std::nullopt;
  PlaceInTree place;
  place.state = (*stat)[end_of_name + 2];
  std::istringstream fields(stat->substr(end_of_name + 4));
  std::int64_t skipped = 0;  // process group, session, terminal, its process group
  fields >> place.parent >> skipped >> skipped >> skipped >> skipped >> place.flags;
  return place;
}

}  // namespace

ProcessScan::ProcessScan(const std::string& job, const std::string& host, pid_t holder)
    : job_(std::string("\0DLAUNCH_JOB=", 13) + job + '\0'),
      host_(std::string("\0DLAUNCH_HOST=", 14) + host + '\0'),
      holder_(holder) {}

std::vector<pid_t> ProcessScan::find() const {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir("/proc"));
  if (!directory) return found;
  const auto self = ::getpid();
  std::map<pid_t, pid_t> parents;
  std::set<pid_t> candidates;
  while (const auto* entry = ::readdir(directory.get())) {
    const auto pid = pid_of(entry->d_name);
    if (pid <= 1) continue;
    const auto place = place_of(pid);
    if (!place) continue;  // it ended meanwhile
    parents[pid] = place->parent;
    if (pid == self || pid == holder_ || place->state == 'Z' || place->state == 'X') continue;
    struct stat status {};
    if (::stat((std::string("/proc/") + entry->d_name).c_str(), &status) != 0) continue;
    if (status.st_uid == ::geteuid() || ::geteuid() == 0) candidates.insert(pid);
  }
  // Only while it is our parent or ourselves the number is surely still the holder's.
  const bool holder_lives = holder_ > 1 && (self == holder_ || ::getppid() == holder_);
  for (const auto pid : candidates) {
    if ((holder_lives && descends(parents, pid)) || is_marked(pid)) found.push_back(pid);
  }
  return found;
}

bool ProcessScan::is_marked(pid_t pid) const {
  const auto path = "/proc/" + std::to_string(pid);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  const auto environment = read_file(path + "/environ", kEnvironmentBytesMax);
  if (!environment) return false;
  const auto padded = '\0' + *environment + '\0';
  return padded.find(job_) != std::string::npos && padded.find(host_) != std::string::npos;
}

bool ProcessScan::descends(const std::map<pid_t, pid_t>& parents, pid_t pid) const {
  // The list is no snapshot: a chain that changed while it was read may lead nowhere.
  constexpr int kDepthMax = 1000;
  for (int depth = 0; depth < kDepthMax; ++depth) {
    const auto parent = parents.find(pid);
    if (parent == parents.end()) return false;
    if (parent->second == holder_) return true;
    pid = parent->second;
  }
  return false;
}

std::vector<pid_t> ProcessScan::strike() const {
  auto pids = find();
  for (const auto pid : pids) {
    ::kill(pid, SIGCONT);
    ::kill(pid, SIGKILL);
  }
  return pids;
}

bool is_ending(pid_t pid) {
  const auto place = place_of(pid);
  return !place || place->state == 'Z' || place->state == 'X' || (place->flags & kPfExiting) != 0;
}

char process_state(pid_t pid) {
  const auto place = place_of(pid);
  return place ? place->state : '?';
}

}  // namespace dlaunch::supervisor::host
