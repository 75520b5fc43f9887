// Starts a worker: its own session, its end of three pipes, nothing else inherited.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
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
};

/// Call on the main thread: the kernel ends the worker when the thread that forked it ends. An
/// error says why the program could not be executed.
[[nodiscard]] Result<SpawnedWorker> spawn_worker(const SpawnOrder& order);

}  // namespace dlaunch::supervisor::host
