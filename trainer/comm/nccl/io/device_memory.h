// Memory of the device, and memory of the host that the device can reach by itself.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "trainer/comm/failure.h"
#include "trainer/comm/nccl/device_communicator.h"

namespace dlaunch::comm {

/// On the device that the calling thread has chosen (`DeviceSession` does).
class DeviceMemory {
 public:
  [[nodiscard]] static CommResult<DeviceMemory> allocate(std::size_t count, DeviceType type);
  [[nodiscard]] DeviceSpan span() const { return {memory_.get(), count_, type_}; }

 private:
  struct Free {
    /// Waits for what runs on the device: after a failure, end the session first.
    void operator()(void* memory) const;
  };
  DeviceMemory(void* memory, std::size_t count, DeviceType type)
      : memory_(memory), count_(count), type_(type) {}

  std::unique_ptr<void, Free> memory_;
  std::size_t count_;
  DeviceType type_;
};

/// Pinned: copies from and to it run beside everything else.
class PinnedMemory {
 public:
  [[nodiscard]] static CommResult<PinnedMemory> allocate(std::size_t bytes);
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_.get()), size_};
  }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  PinnedMemory(void* memory, std::size_t size) : memory_(memory), size_(size) {}

  std::unique_ptr<void, Free> memory_;
  std::size_t size_;
};

}  // namespace dlaunch::comm
