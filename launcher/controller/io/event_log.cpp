#include "launcher/controller/io/event_log.h"

#include <algorithm>
#include <utility>

namespace dlaunch::launcher::controller {

const EventRow& EventLog::add(EventRow event) {
  event.id = ++last_id_;
  kept_.push_back(std::move(event));
  if (kept_.size() > kKeptMax) kept_.pop_front();
  return kept_.back();
}

std::uint64_t EventLog::first_kept() const {
  return kept_.empty() ? last_id_ + 1 : kept_.front().id;
}

std::vector<EventRow> EventLog::after(std::uint64_t id, std::size_t rows_max) const {
  if (id >= last_id_) return {};
  const auto first = first_kept();
  const auto start = kept_.begin() + static_cast<std::ptrdiff_t>(id >= first ? id + 1 - first : 0);
  const auto count = std::min<std::size_t>(rows_max, static_cast<std::size_t>(kept_.end() - start));
  return {start, start + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace dlaunch::launcher::controller
