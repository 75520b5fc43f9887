// Finds and ends the processes of one job on one host, whoever their parents are by now.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace dlaunch::supervisor::host {

/// Processes of this user whose environment carries DLAUNCH_JOB=<job> and DLAUNCH_HOST=<host>, and
/// all descendants of the holder, to which orphans come: workers and what they started, also in
/// sessions of their own and with an environment of their own. Other jobs and hosts never match.
class ProcessScan {
 public:
  /// `holder` and the calling process are never among the found.
  ProcessScan(const std::string& job, const std::string& host, pid_t holder);
  [[nodiscard]] std::vector<pid_t> find() const;
  /// SIGCONT and SIGKILL to each that is found; returns them.
  std::vector<pid_t> strike() const;

 private:
  [[nodiscard]] bool is_marked(pid_t pid) const;
  [[nodiscard]] bool descends(const std::map<pid_t, pid_t>& parents, pid_t pid) const;

  std::string job_;
  std::string host_;
  pid_t holder_;
};

/// True from the moment in which the process has begun to end, before its files are closed; also
/// when there is no such process.
[[nodiscard]] bool is_ending(pid_t pid);

/// The letter of /proc/<pid>/stat: R S D T Z …; '?' when there is no such process.
[[nodiscard]] char process_state(pid_t pid);

}  // namespace dlaunch::supervisor::host
