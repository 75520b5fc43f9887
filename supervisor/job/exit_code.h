// The exit codes of a job, also of its viewer. One enum for all of dlaunch; docs/exit_codes.md.
#pragma once

namespace dlaunch::supervisor::job {

enum class ExitCode : int {
  finished = 0,
  usage = 64,          ///< wrong command line
  wrong_file = 65,     ///< wrong file, or a resume that does not match
  hosts_missing = 69,  ///< fewer than the minimum could be had
  bug = 70,            ///< a bug in dlaunch
  storage = 74,        ///< no checkpoint could be written or read
  stopped = 75,        ///< on request or by preemption; can be resumed
  given_up = 76,       ///< restart budget or no-progress breaker
  ssh_key = 77,        ///< SSH authentication or host key
  stopped_now = 130,   ///< by Ctrl-C, without a checkpoint
};

[[nodiscard]] constexpr int to_int(ExitCode code) { return static_cast<int>(code); }

/// What a job returns when the program's own end is the cause: 1 to 63 and signals as they are, its
/// 64 to 127 as 1, for these are dlaunch's own; 0 (it ended too early) as 1.
[[nodiscard]] constexpr int from_program(int code, int signal) {
  if (signal > 0) return 128 + signal;
  return code >= 1 && code < 64 ? code : code >= 128 && code < 256 ? code : 1;
}

}  // namespace dlaunch::supervisor::job
