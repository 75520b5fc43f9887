#include "trainer/model/mixed_linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dlaunch::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct MixedLinear : torch::autograd::Function<MixedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
    context->save_for_backward({input, weight});
    context->saved_data["has_bias"] = bias.has_value();
    const auto rounded = weight.to(at::kBFloat16);
    return bias ? at::addmm(bias->to(at::kBFloat16), input, rounded) : at::mm(input, rounded);
  }

  static variable_list backward(AutogradContext* context, const variable_list& outputs) {
    const auto saved = context->get_saved_variables();
    const auto& input = saved[0];
    const auto& weight = saved[1];
    const auto& upstream = outputs[0];
    at::Tensor of_bias;
    if (context->saved_data["has_bias"].toBool()) of_bias = upstream.to(at::kFloat).sum(0);
    return {at::mm(upstream, weight.to(at::kBFloat16).t()),
            at::mm(input.t(), upstream).to(at::kFloat), of_bias};
  }
};

}  // namespace

at::Tensor mixed_linear(const at::Tensor& input, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias) {
  return MixedLinear::apply(input, weight, bias);
}

}  // namespace dlaunch::trainer
