#include "trainer/io/reserved_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "trainer/flat_array.h"

namespace dlaunch::trainer {
namespace {

/// Of so small an array the kernel may take the pages when it needs them, and till then they cost
/// no fault: 500 of them were a twentieth of a small model's step.
constexpr std::size_t kSmallBytes = std::size_t{8} << 20;

std::size_t bytes_of(std::size_t count) { return std::max(count * sizeof(float), kPageBytes); }

}  // namespace

Result<ReservedArray> ReservedArray::make(std::size_t count) {
  void* const memory = ::mmap(nullptr, bytes_of(count), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return failure(std::error_code(errno, std::generic_category()),
                   "reserving addresses for " + std::to_string(count) + " values");
  }
  return ReservedArray(static_cast<float*>(memory), count);
}

ReservedArray::ReservedArray(ReservedArray&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), count_(std::exchange(other.count_, 0)) {}

ReservedArray::~ReservedArray() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_of(count_));
}

void ReservedArray::release(std::size_t first, std::size_t count) const {
  if (count == 0) return;
  DL_CHECK(first * sizeof(float) % kPageBytes == 0 && count * sizeof(float) % kPageBytes == 0,
           "memory is given back page by page");
  // Neither can fail for memory of this mapping; if it did the memory would only stay.
  const bool small = bytes_of(count_) <= kSmallBytes;
  ::madvise(memory_ + first, count * sizeof(float), small ? MADV_FREE : MADV_DONTNEED);
}

}  // namespace dlaunch::trainer
