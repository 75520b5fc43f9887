// What LibTorch's matrix product reaches here: the measure that a model's speed is held against.
#pragma once

namespace dlaunch::trainer {

/// Single-precision floating-point operations a second of a square product with the threads that
/// this process computes with; the best of a few, some 30 ms in all.
[[nodiscard]] double measure_gemm_flops_per_second();

}  // namespace dlaunch::trainer
