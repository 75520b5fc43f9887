#include "supervisor/host/io/process_scan.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <string_view>

#include "supervisor/host/io/posix.h"

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

}  // namespace

ProcessScan::ProcessScan(const std::string& job, const std::string& host)
    : job_(std::string("\0DLAUNCH_JOB=", 13) + job + '\0'),
      host_(std::string("\0DLAUNCH_HOST=", 14) + host + '\0') {}

std::vector<pid_t> ProcessScan::find() const {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir("/proc"));
  if (!directory) return found;
  const auto self = ::getpid();
  while (const auto* entry = ::readdir(directory.get())) {
    const auto pid = pid_of(entry->d_name);
    if (pid <= 1 || pid == self) continue;
    const auto path = std::string("/proc/") + entry->d_name;
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) continue;
    const auto environment = read_file(path + "/environ", kEnvironmentBytesMax);
    if (!environment) continue;  // it ended meanwhile
    const auto padded = '\0' + *environment + '\0';
    if (padded.find(job_) == std::string::npos || padded.find(host_) == std::string::npos) continue;
    if (process_state(pid) != 'Z') found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> ProcessScan::strike() const {
  auto pids = find();
  for (const auto pid : pids) {
    ::kill(pid, SIGCONT);
    ::kill(pid, SIGKILL);
  }
  return pids;
}

char process_state(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!stat) return '?';
  const auto end_of_name = stat->rfind(')');
  return end_of_name != std::string::npos && end_of_name + 2 < stat->size()
             ? (*stat)[end_of_name + 2]
             : '?';
}

}  // namespace dlaunch::supervisor::host
