#include "launcher/controller/io/event_log.h"

#include <algorithm>
#include <utility>

#include "launcher/controller/io/run_store.h"

namespace dlaunch::launcher::controller {

const EventRow& EventLog::add(EventRow event) {
  event.id = ++last_id_;
  kept_.push_back(std::move(event));
  if (kept_.size() > kKeptMax) kept_.pop_front();
  return kept_.back();
}

std::vector<EventRow> EventLog::after(std::uint64_t id, std::size_t rows_max) const {
  if (id >= last_id_) return {};
  const auto first_kept = kept_.empty() ? last_id_ + 1 : kept_.front().id;
  if (id + 1 < first_kept) {
    auto reader = RunReader::open(directory_);
    if (reader) {
      const auto limit = std::min<std::uint64_t>(rows_max, first_kept - id - 1);
      auto rows = reader->events(id, static_cast<std::size_t>(limit));
      if (rows && !rows->empty()) return *rows;
    }
  }
  const auto start =
      kept_.begin() + static_cast<std::ptrdiff_t>(id >= first_kept ? id + 1 - first_kept : 0);
  const auto count = std::min<std::size_t>(rows_max, static_cast<std::size_t>(kept_.end() - start));
  return {start, start + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace dlaunch::launcher::controller
