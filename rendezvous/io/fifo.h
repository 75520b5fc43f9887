// A queue of which thousands stand empty most of the time.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace dlaunch::rendezvous {

/// As std::deque, which takes 600 bytes before anything is in it. Each operation is O(1), over all
/// of them.
template <class T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const { return first_ == items_.size(); }
  [[nodiscard]] std::size_t size() const { return items_.size() - first_; }
  [[nodiscard]] T& front() { return items_[first_]; }
  [[nodiscard]] const T& back() const { return items_.back(); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void pop_front() {
    items_[first_++] = T();
    if (empty()) {
      if (items_.capacity() > kKept) items_ = {};
      items_.clear();
      first_ = 0;
    } else if (first_ > kKept && first_ > items_.size() / 2) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }

 private:
  static constexpr std::size_t kKept = 16;
  std::vector<T> items_;
  std::size_t first_ = 0;
};

}  // namespace dlaunch::rendezvous
