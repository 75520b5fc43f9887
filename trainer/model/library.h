// How LibTorch computes in this process.
#pragma once

#include <cstdint>
#include <string>

namespace dlaunch::trainer {

/// Threads within an operation, for the whole process; results differ between numbers of threads.
void set_threads(std::uint32_t threads);

/// "torch 2.11.0, AVX2, operations 2": what the bits of results rest on beside the program.
[[nodiscard]] std::string numeric_library();

/// Single-precision floating-point operations a second of a square product with those threads, or
/// on the device: the measure that a model's speed is held against. The best of a few, some 30 ms.
[[nodiscard]] double measure_gemm_flops_per_second();

}  // namespace dlaunch::trainer
