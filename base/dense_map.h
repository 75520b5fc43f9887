// A map whose keys are 0, 1, 2, …: what is known of each host or rank.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"

namespace dlaunch {

/// As std::map with a StrongId as key, but each look-up is one step, and neighbours lie together.
/// With a key all smaller ones are known, too.
template <class Key, class Value>
class DenseMap {
 public:
  using value_type = std::pair<Key, Value>;
  using iterator = typename std::vector<value_type>::iterator;
  using const_iterator = typename std::vector<value_type>::const_iterator;

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] iterator begin() { return entries_.begin(); }
  [[nodiscard]] iterator end() { return entries_.end(); }
  [[nodiscard]] const_iterator begin() const { return entries_.begin(); }
  [[nodiscard]] const_iterator end() const { return entries_.end(); }
  void clear() { entries_.clear(); }

  [[nodiscard]] iterator find(Key key) { return begin() + place_of(key); }
  [[nodiscard]] const_iterator find(Key key) const { return begin() + place_of(key); }
  [[nodiscard]] bool contains(Key key) const { return key.value < size(); }
  [[nodiscard]] Value& at(Key key) {
    DL_CHECK(contains(key), "a key is known");
    return entries_[key.value].second;
  }
  [[nodiscard]] const Value& at(Key key) const {
    DL_CHECK(contains(key), "a key is known");
    return entries_[key.value].second;
  }
  Value& operator[](Key key) {
    while (key.value >= size()) {
      entries_.emplace_back(Key{static_cast<decltype(key.value)>(size())}, Value());
    }
    return entries_[key.value].second;
  }

 private:
  [[nodiscard]] std::ptrdiff_t place_of(Key key) const {
    return static_cast<std::ptrdiff_t>(contains(key) ? key.value : size());
  }
  std::vector<value_type> entries_;
};

}  // namespace dlaunch
