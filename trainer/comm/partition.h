// Which rank owns which parts of a buffer that all ranks have in the same layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace dlaunch::comm {

/// Values [first, first + count) of a buffer.
struct ValueRange {
  std::size_t first = 0;
  std::size_t count = 0;
  friend bool operator==(const ValueRange&, const ValueRange&) = default;
};

/// The same on every rank. Ranges are disjoint; values that nobody owns are left alone.
class Partition {
 public:
  /// `owned[r]`: the ranges of rank r, ascending.
  explicit Partition(std::vector<std::vector<ValueRange>> owned);
  /// Contiguous parts that differ by at most one value.
  [[nodiscard]] static Partition even(std::size_t count, std::uint32_t world_size);

  [[nodiscard]] std::uint32_t world_size() const {
    return static_cast<std::uint32_t>(owned_.size());
  }
  [[nodiscard]] std::span<const ValueRange> of(Rank rank) const { return owned_[rank.value]; }
  /// The most values that a rank owns.
  [[nodiscard]] std::size_t largest() const { return largest_; }
  /// Of all ranks together.
  [[nodiscard]] std::size_t total() const { return total_; }
  /// One past the last value that somebody owns.
  [[nodiscard]] std::size_t end() const { return end_; }

  /// The ranges that hold values [first, first + count) of those that `rank` owns, in their order;
  /// fewer where it owns fewer.
  [[nodiscard]] std::vector<ValueRange> window(Rank rank, std::size_t first,
                                               std::size_t count) const;

 private:
  std::vector<std::vector<ValueRange>> owned_;
  std::size_t largest_ = 0, total_ = 0, end_ = 0;
};

}  // namespace dlaunch::comm
