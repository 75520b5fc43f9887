// Memory that two processes of one user on one host see; nothing of it outlives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::comm {

/// A mapping, unmapped at the end. It has no name in any file system: when the last process that
/// has it is gone, however it died, so is the memory.
class SharedMemory {
 public:
  /// Zeroed, and all of it there at once, so that it cannot run out later.
  [[nodiscard]] static Result<SharedMemory> create(std::size_t bytes);
  /// What process `pid` knows as `descriptor` (`create`'s), if it has this size and belongs to this
  /// process's user.
  [[nodiscard]] static Result<SharedMemory> open(std::uint64_t pid, std::uint64_t descriptor,
                                                 std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept
      : descriptor_(std::move(other.descriptor_)), bytes_(std::exchange(other.bytes_, {})) {}
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// The other side has opened it, or never will.
  void close_descriptor() { descriptor_.reset(); }

 private:
  SharedMemory(FileDescriptor descriptor, std::span<std::byte> bytes)
      : descriptor_(std::move(descriptor)), bytes_(bytes) {}
  [[nodiscard]] static Result<SharedMemory> map(FileDescriptor descriptor, std::size_t bytes);

  FileDescriptor descriptor_;
  std::span<std::byte> bytes_;
};

}  // namespace dlaunch::comm
