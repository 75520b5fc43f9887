#include "trainer/model/gelu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstddef>
#include <span>

#include "trainer/model/gelu_values.h"

namespace dlaunch::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input) {
    const auto inputs = input.contiguous();
    auto values = at::empty_like(inputs);
    auto slopes = at::empty_like(inputs);
    const auto count = static_cast<std::size_t>(inputs.numel());
    gelu_values({inputs.const_data_ptr<float>(), count}, {values.mutable_data_ptr<float>(), count},
                {slopes.mutable_data_ptr<float>(), count});
    context->save_for_backward({slopes});
    return values;
  }

  static variable_list backward(AutogradContext* context, const variable_list& outputs) {
    return {context->get_saved_variables()[0].mul_(outputs[0])};
  }
};

}  // namespace

at::Tensor tanh_gelu(const at::Tensor& input) {
  return input.is_cpu() ? Gelu::apply(input) : at::gelu(input, "tanh");
}

}  // namespace dlaunch::trainer
