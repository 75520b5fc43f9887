// What one worker wrote: for its file, the last lines, and lines to pass on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "supervisor/host/io/log_writer.h"

namespace dlaunch::supervisor::host {

/// Owned by one worker; used on one thread, which never waits for the disk.
class WorkerLog {
 public:
  WorkerLog(std::shared_ptr<LogWriter> writer, Generation generation, Rank rank);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;
  WorkerLog& operator=(const WorkerLog&) = delete;

  /// The file takes the bytes as they are; lines are UTF-8, what is none in them is replaced.
  /// Returns the whole lines among what has come so far, at most `bytes_max` of them; what was more
  /// is in the file and counted in `dropped`.
  struct Passed {
    std::string text;
    std::uint64_t dropped = 0;
  };
  [[nodiscard]] Passed append(std::string_view bytes, std::size_t bytes_max);
  [[nodiscard]] const std::deque<std::string>& last_lines() const { return last_lines_; }
  /// The end of the output: an unfinished line counts as one.
  void finish();

 private:
  void keep(std::string_view line);

  std::shared_ptr<LogWriter> writer_;
  LogWriter::File file_;
  std::string partial_;
  std::deque<std::string> last_lines_;
};

}  // namespace dlaunch::supervisor::host
