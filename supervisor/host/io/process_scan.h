// Finds and ends the processes of one job on one host, whoever their parents are by now.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace dlaunch::supervisor::host {

/// Processes of this user whose environment carries DLAUNCH_JOB=<job> and DLAUNCH_HOST=<host>:
/// workers and all they started, also in sessions of their own. Other jobs and hosts never match.
class ProcessScan {
 public:
  ProcessScan(const std::string& job, const std::string& host);
  [[nodiscard]] std::vector<pid_t> find() const;
  /// SIGCONT and SIGKILL to each that is found; returns them.
  std::vector<pid_t> strike() const;

 private:
  std::string job_;
  std::string host_;
};

/// The letter of /proc/<pid>/stat: R S D T Z …; '?' when there is no such process.
[[nodiscard]] char process_state(pid_t pid);

}  // namespace dlaunch::supervisor::host
