// Floats that have an address all the time, and memory only while they are used.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace dlaunch::trainer {

/// Address space is reserved once; pages come with the first write and go with `release`. So a
/// tensor may point at values that are not there yet, and be right again when they are.
class ReservedArray {
 public:
  [[nodiscard]] static Result<ReservedArray> make(std::size_t count);
  ReservedArray(ReservedArray&& other) noexcept;
  ReservedArray& operator=(ReservedArray&&) = delete;
  ~ReservedArray();

  [[nodiscard]] std::span<float> values() const { return {memory_, count_}; }
  /// Gives the memory of values [first, first + count) back, at once or, of a small array, as soon
  /// as the kernel needs it; both at page boundaries. Each reads as 0 or as before from then on.
  void release(std::size_t first, std::size_t count) const;

 private:
  ReservedArray(float* memory, std::size_t count) : memory_(memory), count_(count) {}

  float* memory_;
  std::size_t count_;
};

}  // namespace dlaunch::trainer
