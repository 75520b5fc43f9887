// Writes what workers print on a thread of its own: a disk that stalls must delay no heartbeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/ids.h"
#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "base/time.h"

namespace dlaunch::supervisor::host {

/// Any thread may call it. Only `flush` waits, and the destructor for all that is there; a process
/// that must end although its disk hangs flushes and exits without it.
class LogWriter {
 public:
  struct Setting {
    std::string directory;
    std::uint64_t bytes_max = std::uint64_t{1} << 30U;  ///< of the job's logs on this host, about
    std::size_t waiting_bytes_max = 16U << 20U;         ///< for the disk
    /// The disk, where a test wants another.
    std::function<Result<void>(int, std::string_view)> write = write_all;
  };
  using File = std::uint64_t;

  explicit LogWriter(Setting setting);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  /// The rank's next file (log_files.h). It begins another one now and then, so that old ones can
  /// be trimmed; a disk that refuses costs the file, never the worker.
  [[nodiscard]] File open(Generation generation, Rank rank);
  /// What finds no room among what waits is dropped; the file says how much is missing where.
  void write(File file, std::string_view bytes);
  void close(File file);
  /// log_files.h.
  void keep(Generation generation);
  /// A line for agent.log, which is on the same disk.
  void note(const std::string& line);
  /// False when the disk has not taken all of it within `limit`.
  bool flush(nanoseconds limit);

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::thread thread_;
};

}  // namespace dlaunch::supervisor::host
