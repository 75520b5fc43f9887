// The files of what workers wrote: `<directory>/generation-<g>/rank-<r>.log`, goes on in
// `rank-<r>.1.log` and so on. All of it blocks as the disk does.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::supervisor::host {

/// Makes the next file of this rank, after all that are there: none is ever overwritten.
[[nodiscard]] Result<FileDescriptor> open_log_file(const std::string& directory,
                                                   Generation generation, Rank rank);

/// The first generation that is marked so is the one that trim_logs leaves as it is.
void keep_logs(const std::string& directory, Generation generation);

/// Deletes the oldest generations' logs until about `bytes_max` are left, never those of keep_logs.
/// Of the newest one, which may have half of it, go the files between each rank's first and its
/// present one, the oldest first, then the first ones.
void trim_logs(const std::string& directory, std::uint64_t bytes_max);

}  // namespace dlaunch::supervisor::host
