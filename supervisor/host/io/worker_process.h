// Starts a worker: its own session, its end of three pipes, nothing else inherited.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::supervisor::host {

struct SpawnOrder {
  std::vector<std::string> argv;
  std::string directory;                           ///< empty: the agent's
  std::map<std::string, std::string> environment;  ///< over the agent's own
};
struct SpawnedWorker {
  pid_t pid = 0;
  FileDescriptor pidfd;
  FileDescriptor out, error;  ///< read ends, non-blocking
  FileDescriptor report;      ///< the same: ends when it has become the program; see read_report
};

/// Call on the main thread: the kernel ends the worker when the thread that forked it ends. Does
/// not wait for the disks that program and directory are on.
[[nodiscard]] Result<SpawnedWorker> spawn_worker(const SpawnOrder& order);

/// What came from `report` until its end: nothing, or why the program could not be executed.
[[nodiscard]] Result<void> read_report(std::string_view bytes, const SpawnOrder& order);

}  // namespace dlaunch::supervisor::host
