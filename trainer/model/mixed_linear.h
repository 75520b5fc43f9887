// A linear layer in bfloat16 on weights that stay in single precision.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace dlaunch::trainer {

/// input [rows, in] (bfloat16) · weight [in, out] (float, a leaf or a view of one) + bias [out]
/// (float), as bfloat16. The weight is rounded when it is used, forward and
/// backward, and no rounded copy is kept in between: where its values are gathered only while they
/// are needed, that would keep all of them. Its gradient, and that of the bias, are float.
[[nodiscard]] at::Tensor mixed_linear(const at::Tensor& input, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias);

}  // namespace dlaunch::trainer
