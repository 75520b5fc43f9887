// GPT-2's operations on LibTorch.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <memory>
#include <vector>

#include "base/check.h"
#include "trainer/model/definition.h"
#include "trainer/model/gelu.h"
#include "trainer/model/mean_loss.h"
#include "trainer/model/mixed_linear.h"
#include "trainer/model/unit_chain.h"

namespace dlaunch::trainer {
namespace {

constexpr double kEpsilon = 1e-5;  // as GPT-2's layer norms have it

struct Block {
  at::Tensor norm1_weight, norm1_bias, attention_weight, attention_bias, projection_weight,
      projection_bias, norm2_weight, norm2_bias, expand_weight, expand_bias, contract_weight,
      contract_bias;
};

class Gpt final : public UnitChain {
 public:
  Gpt(const TrainerSettings& settings, const ParameterLayout& layout, std::span<float> values)
      : UnitChain(layout, values),
        settings_(settings.model),
        checkpointing_(settings.activation_checkpointing),
        mixed_(settings.precision == Precision::bf16) {
    std::size_t next = 0;
    const auto take = [&] { return parameter(next++); };
    tokens_ = take();
    positions_ = take();
    for (std::uint32_t i = 0; i < settings_.layers; ++i) {
      blocks_.push_back({take(), take(), take(), take(), take(), take(), take(), take(), take(),
                         take(), take(), take()});
    }
    norm_weight_ = take();
    norm_bias_ = take();
    DL_CHECK(next == layout.parameters.size(), "the layout has the parameters that are used");
  }

  /// As in PaLM's appendix B: six for each weight of a matrix product, and attention without
  /// leaving out what the mask hides.
  [[nodiscard]] double flops_per_token() const override {
    double weights = static_cast<double>(tokens_.numel());  // the tied head; looking up is free
    for (const auto& block : blocks_) {
      for (const auto* weight : {&block.attention_weight, &block.projection_weight,
                                 &block.expand_weight, &block.contract_weight}) {
        weights += static_cast<double>(weight->numel());
      }
    }
    const double attention = 2.0 * settings_.layers * settings_.context * settings_.width;
    return 6 * (weights + attention);
  }

 private:
  [[nodiscard]] bool is_block(std::size_t unit) const { return unit > 0 && unit <= blocks_.size(); }
  [[nodiscard]] bool runs_again(std::size_t unit) const override {
    return checkpointing_ && is_block(unit);
  }

  [[nodiscard]] at::Tensor apply(std::size_t unit, const at::Tensor& stream,
                                 const Batch& batch) const override {
    const std::int64_t rows = batch.sequences;
    const std::int64_t length = batch.context;
    if (unit == 0) {
      const auto embedded =
          at::embedding(tokens_, tokens(batch, batch.inputs)) + positions_.slice(0, 0, length);
      return embedded.reshape({rows * length, settings_.width});
    }
    if (is_block(unit)) return apply_block(blocks_[unit - 1], stream, rows, length);
    const auto last = normed(stream, norm_weight_, norm_bias_);
    // The head is tied to the token embedding.
    const auto logits = mixed_ ? single(mixed_linear(rounded(last), tokens_.t(), std::nullopt))
                               : at::matmul(last, tokens_.t());
    return mean_loss(logits, tokens(batch, batch.targets).reshape({rows * length}));
  }

  at::Tensor normed(const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& bias) const {
    return at::layer_norm(input, {settings_.width}, weight, bias, kEpsilon);
  }

  at::Tensor apply_block(const Block& block, const at::Tensor& stream, std::int64_t rows,
                         std::int64_t length) const {
    const auto first = normed(stream, block.norm1_weight, block.norm1_bias);
    const auto attended = stream + single(linear(attention(block, first, rows, length),
                                                 block.projection_weight, block.projection_bias));
    const auto second = normed(attended, block.norm2_weight, block.norm2_bias);
    const auto wide = linear(second, block.expand_weight, block.expand_bias);
    const auto expanded = mixed_ ? at::gelu(wide, "tanh") : tanh_gelu(wide);
    return attended + single(linear(expanded, block.contract_weight, block.contract_bias));
  }

  at::Tensor linear(const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& bias) const {
    return mixed_ ? mixed_linear(rounded(input), weight, bias) : at::addmm(bias, input, weight);
  }
  static at::Tensor rounded(const at::Tensor& tensor) { return tensor.to(at::kBFloat16); }
  static at::Tensor single(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

  at::Tensor attention(const Block& block, const at::Tensor& input, std::int64_t rows,
                       std::int64_t length) const {
    const std::int64_t heads = settings_.heads;
    const std::int64_t width = settings_.width;
    // The gradients of three neighbours are put side by side in one copy.
    const auto parts = linear(input, block.attention_weight, block.attention_bias).split(width, 1);
    const auto of_heads = [&](const at::Tensor& part) {
      return part.view({rows, length, heads, width / heads}).transpose(1, 2);
    };
    return at::scaled_dot_product_attention(of_heads(parts[0]), of_heads(parts[1]),
                                            of_heads(parts[2]), {}, /*dropout_p=*/0,
                                            /*is_causal=*/true)
        .transpose(1, 2)
        .reshape({rows * length, width});
  }

  const ModelSettings settings_;
  const bool checkpointing_;
  const bool mixed_;  ///< products in bfloat16
  at::Tensor tokens_, positions_, norm_weight_, norm_bias_;
  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<Model> make_model(const TrainerSettings& settings, const ParameterLayout& layout,
                                  std::span<float> values) {
  return std::make_unique<Gpt>(settings, layout, values);
}

}  // namespace dlaunch::trainer
