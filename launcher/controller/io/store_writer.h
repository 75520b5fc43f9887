// Writes to run.db on a thread of its own: nothing that decides ever waits for the disk.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/run_record.h"

namespace dlaunch::launcher::controller {

/// Rows that wait are written in one transaction, in order. While the disk refuses them they are
/// kept and tried again each second.
class StoreWriter {
 public:
  struct Handlers {
    /// These journal rows are on disk, in order.
    std::function<void(std::vector<std::uint64_t> tickets)> journaled;
    /// Each time writing fails, and `well` once it works again.
    std::function<void(std::string sentence)> failed;
    std::function<void()> well;
    /// For each journal row, before `journaled`; may be empty.
    std::function<void(const std::string& kind)> on_disk = {};
  };
  /// Rows other than of the journal that wait; beyond it they are dropped and counted. An hour of a
  /// full disk at an event every 0.1 s stays below.
  static constexpr std::size_t kRowsWaitingMax = 50'000;

  /// Handlers are called on the writer's thread: they only post.
  StoreWriter(RunStore store, Handlers handlers);
  /// Writes what waits if the disk takes it at once, then ends.
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// A status or output that waits is replaced by a newer one; a journal row that waits is not put
  /// twice.
  void put(Row row);
  /// Called with the store on the writer's thread, between two transactions; not at all when the
  /// writer ends first.
  void read(std::function<void(RunStore&)> task);
  /// True: everything put so far is on disk.
  [[nodiscard]] bool flush(nanoseconds limit);

 private:
  void run();
  [[nodiscard]] bool write(const std::vector<Row>& batch);

  RunStore store_;
  Handlers handlers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Row> waiting_;
  std::vector<std::function<void(RunStore&)>> tasks_;
  std::set<std::uint64_t> tickets_;  ///< of journal rows that are not on disk yet
  std::uint64_t put_ = 0;            ///< rows ever put
  std::uint64_t written_ = 0;        ///< of these, settled
  std::uint64_t dropped_ = 0;
  bool failing_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dlaunch::launcher::controller
