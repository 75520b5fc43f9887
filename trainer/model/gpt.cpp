// The only file that includes LibTorch: the model's operations, and its errors made into ours.
#include "trainer/model/gpt.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <array>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/model/mixed_linear.h"

namespace dlaunch::trainer {

namespace {

constexpr std::size_t kTokens = 0;  // the parameter that the head shares with the embedding
constexpr double kEpsilon = 1e-5;   // as GPT-2's layer norms have it

std::vector<std::int64_t> sizes_of(const Parameter& parameter) {
  return {parameter.shape.begin(), parameter.shape.end()};
}

/// Calls into LibTorch; what it throws becomes an Error here and nowhere else.
template <class Work>
auto translated(const char* doing, Work work) -> Result<decltype(work())> {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const std::bad_alloc&) {
    return failure(std::errc::not_enough_memory, doing);
  } catch (const c10::Error& error) {
    const std::string_view what = error.what_without_backtrace();
    const bool memory = what.find("can't allocate memory") != std::string_view::npos;
    const auto code =
        memory ? std::make_error_code(std::errc::not_enough_memory) : std::error_code{};
    return failure(code, std::string(doing) + ": " + std::string(what));
  } catch (const std::runtime_error& error) {
    return failure(std::error_code{}, std::string(doing) + ": " + error.what());
  }
}

struct Block {
  at::Tensor norm1_weight, norm1_bias, attention_weight, attention_bias, projection_weight,
      projection_bias, norm2_weight, norm2_bias, expand_weight, expand_bias, contract_weight,
      contract_bias;
};

}  // namespace

void set_threads(std::uint32_t threads) { at::set_num_threads(static_cast<int>(threads)); }

std::string numeric_library() {
  return std::string("torch ") + TORCH_VERSION + ", " + at::get_cpu_capability();
}

class Gpt::Impl {
 public:
  Impl(const ModelSettings& settings, const ParameterLayout& layout, std::span<float> values,
       bool checkpointing, Precision precision)
      : settings_(settings),
        layout_(layout),
        checkpointing_(checkpointing),
        mixed_(precision == Precision::bf16) {
    for (const auto& parameter : layout_.parameters) {
      auto leaf = at::from_blob(&values[parameter.first], sizes_of(parameter), at::kFloat);
      leaf.set_requires_grad(true);
      leaves_.push_back(std::move(leaf));
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i) watch(i);
    std::size_t next = 0;
    const auto take = [&] { return leaves_.at(next++); };
    tokens_ = take();
    positions_ = take();
    for (std::uint32_t i = 0; i < settings_.layers; ++i) {
      blocks_.push_back({take(), take(), take(), take(), take(), take(), take(), take(), take(),
                         take(), take(), take()});
    }
    norm_weight_ = take();
    norm_bias_ = take();
    DL_CHECK(next == leaves_.size(), "the layout has the parameters that the model uses");
  }

  [[nodiscard]] std::size_t units() const { return blocks_.size() + 2; }

  void forward_unit(std::size_t unit, std::size_t slot, const Batch& batch) {
    auto& pass = passes_.at(slot);
    pass.inputs.resize(units());
    pass.outputs.resize(units());
    if (unit > 0) {
      // Each unit is a graph of its own: what leaves one enters the next as a leaf.
      pass.inputs[unit] = pass.outputs[unit - 1].variable_data().set_requires_grad(true);
    }
    const bool runs_again = checkpointing_ && is_block(unit);
    const at::AutoGradMode graph(!runs_again);
    pass.outputs[unit] = applied(unit, pass.inputs[unit], batch);
    pass.batch = batch;
  }

  void evaluate_unit(std::size_t unit, std::size_t slot, const Batch& batch) {
    const at::NoGradGuard no_grad;
    auto& pass = passes_.at(slot);
    pass.inputs.clear();
    pass.outputs.resize(units());
    const auto stream = unit > 0 ? std::exchange(pass.outputs[unit - 1], {}) : at::Tensor();
    pass.outputs[unit] = applied(unit, stream, batch);
  }

  [[nodiscard]] double flops_per_token() const {
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

  double loss(std::size_t slot) { return passes_.at(slot).outputs.back().item<float>(); }

  void backward_unit(std::size_t unit, std::size_t slot, std::span<float> gradients,
                     const Ready& ready) {
    auto& pass = passes_.at(slot);
    gradients_ = gradients;
    ready_ = &ready;
    at_head_ = unit + 1 == units();
    const auto upstream = at_head_ ? at::Tensor() : pass.inputs[unit + 1].grad();
    if (!at_head_) pass.inputs[unit + 1].reset();
    auto output = std::exchange(pass.outputs[unit], {});
    if (checkpointing_ && is_block(unit)) output = applied(unit, pass.inputs[unit], pass.batch);
    output.backward(upstream);
    ready_ = nullptr;
  }

 private:
  /// When a leaf's gradient is complete it is moved into the flat array, so that no second copy
  /// of all gradients is ever kept.
  void watch(std::size_t index) {
    auto accumulator = torch::autograd::impl::grad_accumulator(leaves_[index]);
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, index](const torch::autograd::variable_list& outputs,
                      const torch::autograd::variable_list&) {
          take_gradient(index);
          return outputs;
        }));
    accumulators_.push_back(std::move(accumulator));  // else the hook would go with it
  }

  void take_gradient(std::size_t index) {
    const auto& parameter = layout_.parameters[index];
    auto& gradient = leaves_[index].mutable_grad();
    at::NoGradGuard no_grad;
    const auto place = at::from_blob(&gradients_[parameter.first], sizes_of(parameter), at::kFloat);
    const bool tied = index == kTokens;
    if (tied && !at_head_) {
      place.add_(gradient);
    } else {
      place.copy_(gradient);
    }
    gradient.reset();
    if (!tied || !at_head_) (*ready_)(index);
  }

  [[nodiscard]] bool is_block(std::size_t unit) const { return unit > 0 && unit <= blocks_.size(); }

  at::Tensor applied(std::size_t unit, const at::Tensor& stream, const Batch& batch) const {
    const std::int64_t rows = batch.sequences;
    const std::int64_t length = batch.context;
    const auto tokens_from = [&](std::span<const std::int64_t> ids) {
      return at::from_blob(const_cast<std::int64_t*>(ids.data()), {rows, length}, at::kLong);
    };
    if (unit == 0) {
      const auto embedded =
          at::embedding(tokens_, tokens_from(batch.inputs)) + positions_.slice(0, 0, length);
      return embedded.reshape({rows * length, settings_.width});
    }
    if (is_block(unit)) return apply(blocks_[unit - 1], stream, rows, length);
    const auto last = normed(stream, norm_weight_, norm_bias_);
    // The head is tied to the token embedding.
    const auto logits = mixed_ ? single(mixed_linear(rounded(last), tokens_.t(), std::nullopt))
                               : at::matmul(last, tokens_.t());
    return at::cross_entropy_loss(logits, tokens_from(batch.targets).reshape({rows * length}));
  }

  at::Tensor normed(const at::Tensor& input, const at::Tensor& weight,
                    const at::Tensor& bias) const {
    return at::layer_norm(input, {settings_.width}, weight, bias, kEpsilon);
  }

  at::Tensor apply(const Block& block, const at::Tensor& stream, std::int64_t rows,
                   std::int64_t length) const {
    const auto first = normed(stream, block.norm1_weight, block.norm1_bias);
    const auto attended = stream + single(linear(attention(block, first, rows, length),
                                                 block.projection_weight, block.projection_bias));
    const auto second = normed(attended, block.norm2_weight, block.norm2_bias);
    const auto expanded = at::gelu(linear(second, block.expand_weight, block.expand_bias), "tanh");
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
    // [rows, length, 3, heads, size of head] → [3, rows, heads, length, size of head]
    const auto mixed = linear(input, block.attention_weight, block.attention_bias)
                           .view({rows, length, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4});
    const auto parts = mixed.unbind(0);  // its gradient is one copy, that of select three sums
    return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, /*dropout_p=*/0,
                                            /*is_causal=*/true)
        .transpose(1, 2)
        .reshape({rows * length, width});
  }

  ModelSettings settings_;
  ParameterLayout layout_;
  bool checkpointing_;
  bool mixed_;  ///< products in bfloat16
  std::vector<at::Tensor> leaves_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  at::Tensor tokens_, positions_, norm_weight_, norm_bias_;
  std::vector<Block> blocks_;
  /// One micro-batch on its way: what went into each unit and what came out of it.
  struct Pass {
    std::vector<at::Tensor> inputs, outputs;
    Batch batch;
  };
  std::array<Pass, kSlots> passes_;
  std::span<float> gradients_;
  bool at_head_ = false;
  const Ready* ready_ = nullptr;
};

Gpt::Gpt(const ModelSettings& settings, const ParameterLayout& layout, std::span<float> values,
         bool checkpointing, Precision precision)
    : impl_(std::make_unique<Impl>(settings, layout, values, checkpointing, precision)) {}
Gpt::~Gpt() = default;

std::size_t Gpt::units() const { return impl_->units(); }
Result<void> Gpt::forward_unit(std::size_t unit, std::size_t slot, const Batch& batch) {
  return translated("computing the loss", [&] { impl_->forward_unit(unit, slot, batch); });
}
Result<void> Gpt::evaluate_unit(std::size_t unit, std::size_t slot, const Batch& batch) {
  return translated("computing the validation loss",
                    [&] { impl_->evaluate_unit(unit, slot, batch); });
}
Result<double> Gpt::loss(std::size_t slot) {
  return translated("computing the loss", [&] { return impl_->loss(slot); });
}
double Gpt::flops_per_token() const { return impl_->flops_per_token(); }
Result<void> Gpt::backward_unit(std::size_t unit, std::size_t slot, std::span<float> gradients,
                                const Ready& ready) {
  return translated("computing the gradient",
                    [&] { impl_->backward_unit(unit, slot, gradients, ready); });
}

}  // namespace dlaunch::trainer
