#include "trainer/comm/nccl/io/device_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "trainer/comm/nccl/io/device_error.h"

namespace dlaunch::comm {

CommResult<DeviceMemory> DeviceMemory::allocate(std::size_t count, DeviceType type) {
  void* memory = nullptr;
  // Nothing at all has no address, and NCCL wants one.
  const std::size_t bytes = std::max<std::size_t>(count, 1) * bytes_of(type);
  return check_cuda(cudaMalloc(&memory, bytes),
                    "reserving " + std::to_string(bytes) + " bytes on the device")
      .map([&] { return DeviceMemory(memory, count, type); });
}

void DeviceMemory::Free::operator()(void* memory) const { static_cast<void>(cudaFree(memory)); }

CommResult<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  void* memory = nullptr;
  return check_cuda(cudaMallocHost(&memory, bytes),
                    "pinning " + std::to_string(bytes) + " bytes of the host's memory")
      .map([&] { return PinnedMemory(memory, bytes); });
}

void PinnedMemory::Free::operator()(void* memory) const { static_cast<void>(cudaFreeHost(memory)); }

}  // namespace dlaunch::comm
