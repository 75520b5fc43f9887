// Names, shapes and first values of GPT-2 (Radford et al. 2019), as Hugging Face's GPT2LMHeadModel
// saves them. Linear weights are [in, out], as its Conv1D has them. Units: the embeddings, each
// block, the last norm with the tied head.
#include <cmath>
#include <string>

#include "trainer/model/definition.h"

namespace dlaunch::trainer {
namespace {

constexpr float kDeviation = 0.02F;

}  // namespace

ParameterLayout layout_of(const ModelSettings& model) {
  const std::uint64_t width = model.width;
  // Projections back into the residual stream start smaller, for each layer adds two of them.
  const auto residual = static_cast<float>(kDeviation / std::sqrt(2.0 * model.layers));
  LayoutBuilder builder;
  builder.unit().reads_in_backward = false;
  builder.matrix("transformer.wte.weight", model.vocabulary, width, kDeviation);
  builder.matrix("transformer.wpe.weight", model.context, width, kDeviation);
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    builder.unit();
    const auto block = "transformer.h." + std::to_string(layer) + ".";
    builder.constant(block + "ln_1.weight", width, 1);
    builder.constant(block + "ln_1.bias", width, 0);
    builder.matrix(block + "attn.c_attn.weight", width, 3 * width, kDeviation);
    builder.constant(block + "attn.c_attn.bias", 3 * width, 0);
    builder.matrix(block + "attn.c_proj.weight", width, width, residual);
    builder.constant(block + "attn.c_proj.bias", width, 0);
    builder.constant(block + "ln_2.weight", width, 1);
    builder.constant(block + "ln_2.bias", width, 0);
    builder.matrix(block + "mlp.c_fc.weight", width, 4 * width, kDeviation);
    builder.constant(block + "mlp.c_fc.bias", 4 * width, 0);
    builder.matrix(block + "mlp.c_proj.weight", 4 * width, width, residual);
    builder.constant(block + "mlp.c_proj.bias", width, 0);
  }
  builder.unit().borrows = 0;
  builder.constant("transformer.ln_f.weight", width, 1);
  builder.constant("transformer.ln_f.bias", width, 0);
  return builder.take();
}

}  // namespace dlaunch::trainer
