// A model of one's own: windows of characters mixed along their length, without attention.
//
// docs/own_model.md walks through it. The numbers of [trainer.model]: `layers` blocks of `width`,
// which look back over up to `context` tokens; `heads` means nothing here.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tril.h>

#include <memory>
#include <string>

#include "trainer/model/definition.h"
#include "trainer/model/unit_chain.h"

namespace dlaunch::trainer {
namespace {

constexpr std::size_t kPerBlock = 5;  // parameters
constexpr double kEpsilon = 1e-5;

class Mixer final : public UnitChain {
 public:
  Mixer(const TrainerSettings& settings, const ParameterLayout& layout, std::span<float> values)
      : UnitChain(layout, values), settings_(settings) {}

  [[nodiscard]] double flops_per_token() const override {
    const auto& model = settings_.model;
    const double width = model.width;
    const double block = model.context * width + width * width;
    return 6 * (model.layers * block + width * model.vocabulary);
  }

 private:
  [[nodiscard]] at::Tensor apply(std::size_t unit, const at::Tensor& stream,
                                 const Batch& batch) const override {
    if (unit == 0) return at::embedding(parameter(0), tokens(batch, batch.inputs));
    if (unit + 1 < units()) return mixed(stream, 1 + (unit - 1) * kPerBlock);
    const auto logits = at::matmul(stream, parameter(1 + settings_.model.layers * kPerBlock));
    return at::cross_entropy_loss(logits.flatten(0, 1), tokens(batch, batch.targets).flatten());
  }

  /// [sequences, context, width] plus what each place learns from those before it, and from itself.
  [[nodiscard]] at::Tensor mixed(const at::Tensor& stream, std::size_t first) const {
    const auto normed = at::layer_norm(stream, {std::int64_t{settings_.model.width}},
                                       parameter(first), parameter(first + 1), kEpsilon);
    const auto looking_back = at::matmul(at::tril(parameter(first + 2)), normed);
    const auto raised =
        at::gelu(at::matmul(looking_back, parameter(first + 3)) + parameter(first + 4));
    return stream + raised;
  }

  const TrainerSettings settings_;
};

}  // namespace

ParameterLayout layout_of(const ModelSettings& model) {
  LayoutBuilder builder;
  builder.unit().reads_in_backward = false;  // the gradient of a look-up needs no values
  builder.matrix("tokens.weight", model.vocabulary, model.width, 0.1F);
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const auto block = "blocks." + std::to_string(layer) + ".";
    builder.unit();
    builder.constant(block + "norm.weight", model.width, 1);
    builder.constant(block + "norm.bias", model.width, 0);
    builder.matrix(block + "mix.weight", model.context, model.context, 0.1F);
    builder.matrix(block + "raise.weight", model.width, model.width, 0.1F);
    builder.constant(block + "raise.bias", model.width, 0);
  }
  builder.unit();
  builder.matrix("head.weight", model.width, model.vocabulary, 0.1F);
  return builder.take();
}

std::unique_ptr<Model> make_model(const TrainerSettings& settings, const ParameterLayout& layout,
                                  std::span<float> values) {
  return std::make_unique<Mixer>(settings, layout, values);
}

}  // namespace dlaunch::trainer
