// A fixed number of floats, zero at first, aligned like LibTorch's own tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace dlaunch::trainer {

/// Vector code splits its loops by alignment, so one alignment on all ranks keeps their bits equal.
constexpr std::size_t kAlignmentBytes = 64;
/// Of the memory that the kernel takes and gives as a whole.
constexpr std::size_t kPageBytes = 4096;

class FlatArray {
 public:
  explicit FlatArray(std::size_t count)
      : memory_(static_cast<float*>(
            ::operator new (count * sizeof(float), std::align_val_t{kAlignmentBytes}))),
        count_(count) {
    std::fill_n(memory_.get(), count, 0.0F);
  }

  [[nodiscard]] std::span<float> values() { return {memory_.get(), count_}; }
  [[nodiscard]] std::span<const float> values() const { return {memory_.get(), count_}; }

 private:
  struct Free {
    void operator()(float* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignmentBytes});
    }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t count_;
};

}  // namespace dlaunch::trainer
