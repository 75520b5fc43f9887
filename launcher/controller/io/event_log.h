// The job's events: the newest in memory, all of them in run.db, numbered over all incarnations.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "launcher/controller/run_record.h"

namespace dlaunch::launcher::controller {

/// Used on the controller's thread.
class EventLog {
 public:
  // Followers that are less far behind are served without the disk.
  static constexpr std::size_t kKeptMax = 4096;

  EventLog(std::string directory, std::uint64_t last_id)
      : directory_(std::move(directory)), last_id_(last_id) {}

  /// Gives it the next id.
  const EventRow& add(EventRow event);
  /// At most `rows_max` after this id, oldest first. What lies further back is read from run.db.
  [[nodiscard]] std::vector<EventRow> after(std::uint64_t id, std::size_t rows_max) const;
  [[nodiscard]] std::uint64_t last_id() const { return last_id_; }

 private:
  std::string directory_;
  std::uint64_t last_id_;
  std::deque<EventRow> kept_;
};

}  // namespace dlaunch::launcher::controller
