// The job's newest events in memory, numbered over all incarnations; all of them stand in run.db.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "launcher/controller/run_record.h"

namespace dlaunch::launcher::controller {

/// Used on the controller's thread; never waits for the disk.
class EventLog {
 public:
  // Followers that are less far behind are served without the disk.
  static constexpr std::size_t kKeptMax = 4096;

  explicit EventLog(std::uint64_t last_id) : last_id_(last_id) {}

  /// Gives it the next id.
  const EventRow& add(EventRow event);
  /// At most `rows_max` of those in memory after this id, oldest first.
  [[nodiscard]] std::vector<EventRow> after(std::uint64_t id, std::size_t rows_max) const;
  /// The first in memory, or the next one to come: what is older stands in run.db alone.
  [[nodiscard]] std::uint64_t first_kept() const;
  [[nodiscard]] std::uint64_t last_id() const { return last_id_; }

 private:
  std::uint64_t last_id_;
  std::deque<EventRow> kept_;
};

}  // namespace dlaunch::launcher::controller
