// Simulated time: what is due next, in an order that the same seed always repeats.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
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
    heap_.push_back(Entry{std::max(due, now_), ++count_, std::move(action)});
    std::push_heap(heap_.begin(), heap_.end());
  }
  void after(nanoseconds delay, std::function<void()> action) {
    at(now_ + delay, std::move(action));
  }

  /// Jumps to the next entry not later than `limit` and runs it; false: there is none.
  bool run_next(Instant limit) {
    if (heap_.empty() || heap_.front().due > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end());
    const auto entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.due;
    order_hash_ =
        (order_hash_ ^
         (entry.number + static_cast<std::uint64_t>(entry.due.time_since_epoch().count()))) *
        kHashPrime;
    entry.action();
    return true;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Differs as soon as anything happens at another time or in another order.
  [[nodiscard]] std::uint64_t order_hash() const { return order_hash_; }

 private:
  static constexpr std::uint64_t kHashPrime = 1099511628211ULL;

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
  std::uint64_t order_hash_ = 14695981039346656037ULL;
  std::vector<Entry> heap_;
};

}  // namespace dlaunch::simulation
