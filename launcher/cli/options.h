// The command line as data: which command, with which options, or what to say instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"

namespace dlaunch::launcher::cli {

struct RunOptions {
  std::string hostfile;  ///< empty: this machine
  std::string from;      ///< "slurm", or empty
  std::string train_file;
  std::vector<std::string> set;  ///< "job.name=x"
  bool detach = false;
  bool fresh = false;
  bool attached = false;
  bool dry_run = false;
  bool json = false;     ///< with dry_run
  bool verbose = false;  ///< all lines of rank 0
};
struct ListOptions {
  bool json = false;
};
struct AttachOptions {
  std::string job;  ///< name or id; empty: the only or newest one
  bool verbose = false;
};
struct ResumeOptions {
  std::string job;
  bool detach = false;
  bool verbose = false;
};
struct StatusOptions {
  std::string job;
  bool json = false;
  bool watch = false;
  std::string wait;  ///< a job state, or empty
  std::optional<nanoseconds> timeout;
};
struct LogsOptions {
  std::string job;
  std::optional<std::uint32_t> rank;
  std::string host;
  std::optional<std::uint64_t> generation;
  bool follow = false;
};
struct EventsOptions {
  std::string job;
  bool json = false;
  bool follow = false;
};
struct ReportOptions {
  std::string job;
  std::string svg;  ///< path of a file to write, or empty
  bool json = false;
};
struct StopOptions {
  std::string job;
  bool now = false;
  bool wait = true;
};
/// `drain` and `add`.
struct MembershipOptions {
  std::string job;
  std::string host;
  bool drain = true;  ///< else add
  bool wait = true;
  nanoseconds timeout = 10min;
};
struct SimulateOptions {
  std::string scenario;
  std::uint64_t seed = 1;   ///< the first
  std::uint64_t seeds = 1;  ///< how many, one after the other
  bool trace = false;       ///< every event of the simulated world, one line each
  bool json = false;
};
struct CleanOptions {
  std::vector<std::string> hosts;  ///< empty: all hosts of ended jobs
  bool dry_run = false;
  bool json = false;
};
/// Started by dlaunch itself.
struct KeeperOptions {
  std::string state_directory;
};
struct ControllerOptions {
  std::string state_directory;
};
/// Nothing to do but to print and leave: help, version, or a wrong command line.
struct Said {
  int code = 0;
  std::string text;
};

using Options =
    std::variant<RunOptions, ListOptions, AttachOptions, ResumeOptions, StatusOptions, LogsOptions,
                 EventsOptions, ReportOptions, StopOptions, MembershipOptions, CleanOptions,
                 SimulateOptions, KeeperOptions, ControllerOptions, Said>;

/// `arguments` without the program's name. The first word chooses the command; anything else than a
/// command's name is `run`.
[[nodiscard]] Options parse_options(std::vector<std::string> arguments);

}  // namespace dlaunch::launcher::cli
