// The lock of a checkpoint directory: one job at a time, on any file system that hosts share.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace dlaunch::supervisor::host {

/// Of jobs that ask at the same moment exactly one gets it. A foreign lock that was not renewed for
/// `stale_after`, by the file system's own clock, is taken over. Blocks. Answers nothing when the
/// lock is `job`'s, else whose it is; an error says why the directory cannot be written.
[[nodiscard]] Result<std::optional<std::string>> take_lock(const std::string& directory,
                                                           const std::string& job,
                                                           nanoseconds stale_after);
/// Says that the job still lives. Blocks. An error when the lock is another's by now.
[[nodiscard]] Result<void> renew_lock(const std::string& directory, const std::string& job);
/// Removes the lock if it is still this job's. Blocks.
void release_lock(const std::string& directory, const std::string& job);

}  // namespace dlaunch::supervisor::host
