// Names, shapes and first values of GPT-2 (Radford et al. 2019).
#include "trainer/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/flat_array.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {

namespace {

constexpr std::size_t kAlignment = kAlignmentBytes / sizeof(float);
constexpr std::size_t kUnitAlignment = kPageBytes / sizeof(float);
constexpr float kDeviation = 0.02F;

std::size_t rounded_up(std::size_t count, std::size_t alignment) {
  return (count + alignment - 1) / alignment * alignment;
}

class Builder {
 public:
  Unit& unit() {
    close_unit();
    layout_.units.push_back({layout_.parameters.size(), 0, layout_.count, 0, {}, true});
    return layout_.units.back();
  }
  void matrix(std::string name, std::uint64_t rows, std::uint64_t columns, float deviation) {
    add({std::move(name), {rows, columns}, 0, rows * columns, 0, rows, true, deviation, 0});
  }
  void constant(std::string name, std::uint64_t size, float value) {
    add({std::move(name), {size}, 0, size, 0, size, false, 0, value});
  }
  ParameterLayout take() {
    close_unit();
    return std::move(layout_);
  }

 private:
  void close_unit() {
    layout_.count = rounded_up(layout_.count, kUnitAlignment);
    if (layout_.units.empty()) return;
    auto& unit = layout_.units.back();
    unit.count = layout_.count - unit.first;
  }
  void add(Parameter parameter) {
    parameter.first = layout_.count;
    layout_.count += rounded_up(parameter.count, kAlignment);
    ++layout_.units.back().parameters;
    layout_.parameters.push_back(std::move(parameter));
  }
  ParameterLayout layout_;
};

}  // namespace

ParameterLayout layout_of(const ModelSettings& model) {
  const std::uint64_t width = model.width;
  // Projections back into the residual stream start smaller, for each layer adds two of them.
  const auto residual = static_cast<float>(kDeviation / std::sqrt(2.0 * model.layers));
  Builder builder;
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

void fill_first_values(const ParameterLayout& layout, std::uint64_t seed, std::span<float> flat) {
  std::ranges::fill(flat, 0.0F);
  for (const auto& parameter : layout.parameters) {
    const auto values = flat.subspan(parameter.first, parameter.count);
    const std::uint64_t key = mix(seed) ^ key_of(parameter.name);
    const std::uint64_t before = parameter.first_row * parameter.row_values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = parameter.deviation > 0 ? parameter.deviation * normal_at(key, before + i)
                                          : parameter.value;
    }
  }
}

}  // namespace dlaunch::trainer
