// Finds and removes what an ended job left on a host: a script for its shell, and what it answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher::launch {

/// A job as it was on one host.
struct CleanTarget {
  std::string job;      ///< id
  std::string host;     ///< as in its hosts file; several hosts may share a machine
  std::string scratch;  ///< empty: any of /var/tmp, /tmp, ~/.cache
};

struct CleanScript {
  std::string nonce;  ///< letters and digits; tells our lines from noise before them
  std::vector<CleanTarget> targets;
  bool dry_run = false;  ///< only look
};

/// POSIX sh. Touches only processes of this user that belong to one of the targets, and their
/// directories. Processes get SIGTERM, and SIGKILL five seconds later.
[[nodiscard]] std::string to_text(const CleanScript& script);

struct Leftovers {
  struct Process {
    std::uint32_t pid = 0;
    std::string job, command;
    bool stays = false;  ///< SIGKILL did not end it: it sleeps in the kernel
  };
  struct Directory {
    std::string path;
    std::uint64_t kibibytes = 0;
    bool stays = false;  ///< it could not be removed
  };
  std::vector<Process> processes;
  std::vector<Directory> directories;
  bool complete = false;  ///< the script came to its end

  [[nodiscard]] bool empty() const { return processes.empty() && directories.empty(); }
};

/// `output` of the script, with whatever login scripts said before.
[[nodiscard]] Leftovers parse_leftovers(std::string_view output, const std::string& nonce);

/// "ended 2 processes (4242 dlaunch-agent, …), removed /var/tmp/dlaunch-0/x/gpu01 (12 KiB)".
[[nodiscard]] std::string say_leftovers(const Leftovers& leftovers, bool dry_run);

}  // namespace dlaunch::launcher::launch
