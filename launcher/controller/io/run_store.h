// run.db and metrics.db in a job's state directory: what is written, and how it is read back, also
// when no controller lives any more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "launcher/controller/io/sqlite.h"
#include "launcher/controller/run_record.h"
#include "rendezvous/io/psk.h"
#include "supervisor/job/recovered.h"

namespace dlaunch::launcher::controller {

/// Who wrote last and where; the address is kept so that living agents find the next controller.
struct RunOwner {
  std::string host;
  std::string boot_id;
  std::int64_t pid = 0;
};

/// What a start finds and fixes.
struct RunStart {
  Incarnation incarnation;
  rendezvous::Secret secret{};
  supervisor::job::Recovered recovered;
  std::vector<IncidentRow> incidents;  ///< of the incarnations before
  std::uint64_t last_event_id = 0;
  bool resumed = false;               ///< the job had ended: no agents of it are left
  bool same_clock = true;             ///< the machine has not booted since the one before
  std::optional<std::uint16_t> port;  ///< where the one before listened
};

/// The writing side. Used on one thread at a time; the caller holds the lock of the directory.
class RunStore {
 public:
  /// Makes the files where they are missing (0600). `notice` is set where the directory lies on a
  /// network file system and a slower, simpler mode is used.
  [[nodiscard]] static Result<RunStore> open(const std::string& directory);

  /// Raises the incarnation, makes the secret at the first start, takes back an end: in one
  /// transaction.
  [[nodiscard]] Result<RunStart> begin(const RunOwner& owner);
  [[nodiscard]] Result<void> set_port(std::uint16_t port);
  /// All rows or none. On success everything but metrics and output is on disk.
  [[nodiscard]] Result<void> write(const std::vector<Row>& rows);
  /// As RunReader's: where no other connection may read, this one does.
  [[nodiscard]] Result<std::vector<EventRow>> events(std::uint64_t after_id, std::size_t rows_max);
  [[nodiscard]] const std::string& notice() const { return notice_; }

 private:
  RunStore(std::string directory, Sqlite run, Sqlite metrics)
      : directory_(std::move(directory)), run_(std::move(run)), metrics_(std::move(metrics)) {}
  [[nodiscard]] Result<void> recover_into(RunStart& start);
  [[nodiscard]] Result<void> must_be_newest();
  [[nodiscard]] Result<void> insert(const Row& row);
  std::string directory_;
  Sqlite run_;
  Sqlite metrics_;
  std::string notice_;
  bool snapshots_ = false;  ///< run.db is ours alone; the status is written beside it too
  std::uint64_t incarnation_ = 0;
};

/// The reading side: each call is one query, beside a living writer too.
class RunReader {
 public:
  [[nodiscard]] static Result<RunReader> open(const std::string& directory);

  [[nodiscard]] Result<std::optional<StatusRow>> status();
  /// At most `rows_max`, oldest first.
  [[nodiscard]] Result<std::vector<EventRow>> events(std::uint64_t after_id, std::size_t rows_max);
  [[nodiscard]] Result<std::vector<IncidentRow>> incidents();
  [[nodiscard]] Result<std::optional<EndRow>> end();
  [[nodiscard]] Result<RunOwner> owner();

 private:
  explicit RunReader(Sqlite run) : run_(std::move(run)) {}
  Sqlite run_;
};

/// Oldest first.
[[nodiscard]] Result<std::vector<IncidentRow>> read_incidents(Sqlite& run);
[[nodiscard]] Result<std::vector<EventRow>> read_events(Sqlite& run, std::uint64_t after_id,
                                                        std::size_t rows_max);

/// Writes an end for a job whose controller cannot (the keeper's last act); nothing where the job
/// has ended already.
[[nodiscard]] Result<void> write_end_if_missing(const std::string& directory, const EndRow& end);

}  // namespace dlaunch::launcher::controller
