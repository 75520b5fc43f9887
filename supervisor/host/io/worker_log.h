// What one worker wrote: a file that a restart never overwrites, the last lines, and lines to pass
// on.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::supervisor::host {

/// Owned by one worker; used on one thread.
class WorkerLog {
 public:
  /// Opens `<directory>/generation-<g>/rank-<r>.log`; when it exists, a numbered one beside it.
  [[nodiscard]] static Result<WorkerLog> open(const std::string& directory, Generation generation,
                                              Rank rank);

  /// The file takes the bytes as they are; lines are UTF-8, what is none in them is replaced.
  /// Returns the whole lines among what has come so far, at most `bytes_max` of them; what was more
  /// is in the file and counted in `dropped`. A full disk loses the file's part, said once in it.
  struct Passed {
    std::string text;
    std::uint64_t dropped = 0;
  };
  [[nodiscard]] Passed append(std::string_view bytes, std::size_t bytes_max);
  [[nodiscard]] const std::deque<std::string>& last_lines() const { return last_lines_; }
  /// The end of the output: an unfinished line counts as one.
  void finish();

 private:
  explicit WorkerLog(FileDescriptor file) : file_(std::move(file)) {}
  void keep(std::string_view line);

  FileDescriptor file_;
  std::string partial_;
  std::deque<std::string> last_lines_;
};

/// Marks the generation that failed first; a later one changes nothing, nor does another agent.
void keep_logs(const std::string& directory, Generation generation);
/// Deletes the oldest generations' logs until at most `bytes_max` are left, never the one marked by
/// keep_logs and never the newest.
void trim_logs(const std::string& directory, std::uint64_t bytes_max);

}  // namespace dlaunch::supervisor::host
