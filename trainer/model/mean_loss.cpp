#include "trainer/model/mean_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/custom_function.h>

namespace dlaunch::trainer {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct MeanLoss : torch::autograd::Function<MeanLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    const auto column = targets.unsqueeze(1);
    const auto probabilities = at::softmax(logits, 1);
    context->save_for_backward({probabilities, column});
    // The largest probability is never below 1/classes: its logarithm is there where that of the
    // target's would be infinite.
    const auto log_sum = at::amax(logits, 1) - at::amax(probabilities, 1).log_();
    return (log_sum - at::gather(logits, 1, column).squeeze(1)).mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& outputs) {
    const auto saved = context->get_saved_variables();
    auto gradient = saved[0];
    const auto& column = saved[1];
    const auto share = outputs[0] / gradient.size(0);
    gradient.mul_(share);
    gradient.scatter_add_(1, column, (-share).expand_as(column));
    return {gradient, at::Tensor()};
  }
};

}  // namespace

at::Tensor mean_loss(const at::Tensor& logits, const at::Tensor& targets) {
  return MeanLoss::apply(logits, targets);
}

}  // namespace dlaunch::trainer
