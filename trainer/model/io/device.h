// What the model computes on: this process's device, found and opened at run time. Torch-free.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// CUDA's matrix library is deterministic only with a workspace of fixed size, which it reads from
/// the environment. Call it while the process has one thread; a value of the user's stays.
void prepare_environment_for_devices();

/// For all models that are made from now on. Loads LibTorch's CUDA half, which is not linked, takes
/// the device of this worker among those that the process may see, and lets only operations run
/// there that give the same bits each time.
/// `errc::no_such_device`: this host is not set up for it, and the sentence says what is missing.
/// `errc::io_error`: there is a driver, and it or the device is broken.
[[nodiscard]] Result<void> use_device(Device device, std::uint32_t local_rank);

/// "NVIDIA H200, CUDA 13.0, cuBLAS 13.1.0": what results rest on; empty on the CPU.
[[nodiscard]] const std::string& device_name();
/// "device 1 of 8, NVIDIA H200, CUDA 13.0, cuBLAS 13.1.0"; empty on the CPU.
[[nodiscard]] const std::string& device_sentence();

/// LibTorch tells more in further lines, where it was thrown among them.
[[nodiscard]] std::string first_line(std::string text);

/// Loads the CUDA half of LibTorch from `folder` into this process, with all that it needs.
[[nodiscard]] Result<void> load_cuda_half(const std::string& folder);

}  // namespace dlaunch::trainer
