// Simulated time: what is due next, in an order that the same seed always repeats.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "base/time.h"

namespace dlaunch::simulation {

/// A heap ordered by (time, order of entry). Owned by the world; nothing else knows the time.
class EventQueue {
 public:
  explicit EventQueue(Instant start) : now_(start) {}

  [[nodiscard]] Instant now() const { return now_; }
  void at(Instant due, std::function<void()> action) {
    heap_.push(Entry{due < now_ ? now_ : due, ++count_, std::move(action)});
  }
  void after(nanoseconds delay, std::function<void()> action) {
    at(now_ + delay, std::move(action));
  }

  /// Jumps to the next entry not later than `limit` and runs it; false: there is none.
  bool run_next(Instant limit) {
    if (heap_.empty() || heap_.top().due > limit) {
      now_ = limit;
      return false;
    }
    const auto entry = heap_.top();
    heap_.pop();
    now_ = entry.due;
    entry.action();
    return true;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  struct Entry {
    Instant due;
    std::uint64_t number;
    std::function<void()> action;
    bool operator<(const Entry& other) const {
      return due != other.due ? due > other.due : number > other.number;
    }
  };
  Instant now_;
  std::uint64_t count_ = 0;
  std::priority_queue<Entry> heap_;
};

}  // namespace dlaunch::simulation
