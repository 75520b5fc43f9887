// Memory that O_DIRECT accepts: page-aligned, a whole number of pages, reused.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace dlaunch::checkpoint {

/// Covers the block size of every disk in use.
constexpr std::size_t kBlockBytes = 4096;

[[nodiscard]] constexpr std::size_t round_up_to_block(std::size_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

class AlignedBuffer {
 public:
  /// At least `bytes`, rounded up to blocks; contents are lost when it grows. False: no memory.
  [[nodiscard]] bool reserve(std::size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace dlaunch::checkpoint
