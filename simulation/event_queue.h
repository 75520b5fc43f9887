// Simulated time: what is due next, in an order that the same seed always repeats.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/time.h"
#include "simulation/action.h"

namespace dlaunch::simulation {

/// A heap ordered by (time, order of entry). Owned by the world; nothing else knows the time.
class EventQueue {
 public:
  explicit EventQueue(Instant start) : now_(start) {}

  [[nodiscard]] Instant now() const { return now_; }
  template <class Call>
  void at(Instant due, Call&& action) {
    const auto place = free_place();
    slot(place) = Slot(std::forward<Call>(action));
    heap_.push_back({std::max(due, now_), ++count_, place});
    std::push_heap(heap_.begin(), heap_.end());
  }
  template <class Call>
  void after(nanoseconds delay, Call&& action) {
    at(now_ + delay, std::forward<Call>(action));
  }

  /// Jumps to the next entry not later than `limit` and runs it; false: there is none.
  bool run_next(Instant limit) {
    if (heap_.empty() || heap_.front().due > limit) {
      now_ = std::max(now_, limit);
      return false;
    }
    std::pop_heap(heap_.begin(), heap_.end());
    const auto entry = heap_.back();
    heap_.pop_back();
    now_ = entry.due;
    order_hash_ =
        (order_hash_ ^
         (entry.number + static_cast<std::uint64_t>(entry.due.time_since_epoch().count()))) *
        kHashPrime;
    auto& action = slot(entry.place);
    action();
    action.reset();
    free_.push_back(entry.place);
    return true;
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Differs as soon as anything happens at another time or in another order.
  [[nodiscard]] std::uint64_t order_hash() const { return order_hash_; }

 private:
  static constexpr std::uint64_t kHashPrime = 1099511628211ULL;
  static constexpr std::size_t kActionBytes = 112;  // a frame on its way
  static constexpr std::uint32_t kSlotsEach = 256;

  using Slot = Action<kActionBytes>;
  struct Entry {
    Instant due;
    std::uint64_t number;
    std::uint32_t place;
    bool operator<(const Entry& other) const {
      return due != other.due ? due > other.due : number > other.number;
    }
  };

  [[nodiscard]] Slot& slot(std::uint32_t place) {
    return (*slots_[place / kSlotsEach])[place % kSlotsEach];
  }
  /// The one that was left last: it is still near.
  [[nodiscard]] std::uint32_t free_place() {
    if (free_.empty()) {
      const auto first = static_cast<std::uint32_t>(slots_.size()) * kSlotsEach;
      slots_.push_back(std::make_unique<std::array<Slot, kSlotsEach>>());
      for (auto i = kSlotsEach; i > 0; --i) free_.push_back(first + i - 1);
    }
    const auto place = free_.back();
    free_.pop_back();
    return place;
  }

  Instant now_;
  std::uint64_t count_ = 0;
  std::uint64_t order_hash_ = 14695981039346656037ULL;
  std::vector<Entry> heap_;
  /// They stay where they are: one that runs may add others.
  std::vector<std::unique_ptr<std::array<Slot, kSlotsEach>>> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace dlaunch::simulation
