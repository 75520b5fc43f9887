#include "tests/trainer/parts/reference_gpt.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

namespace dlaunch::trainer {

namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class Reference {
 public:
  Reference(const ModelSettings& settings, const ParameterLayout& layout,
            std::span<const double> flat)
      : settings_(settings), layout_(layout), flat_(flat) {}

  /// Sum of the losses of one sequence.
  double loss(std::span<const std::int64_t> inputs, std::span<const std::int64_t> targets) const {
    const auto tokens = find("transformer.wte.weight");
    const auto positions = find("transformer.wpe.weight");
    const std::size_t width = settings_.width;
    Rows stream(inputs.size(), Row(width));
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      for (std::size_t i = 0; i < width; ++i) {
        stream[t][i] =
            tokens[static_cast<std::size_t>(inputs[t]) * width + i] + positions[t * width + i];
      }
    }
    for (std::uint32_t layer = 0; layer < settings_.layers; ++layer) {
      const auto block = "transformer.h." + std::to_string(layer) + ".";
      add(stream, linear(attend(linear(norm(stream, block + "ln_1"), block + "attn.c_attn")),
                         block + "attn.c_proj"));
      auto hidden = linear(norm(stream, block + "ln_2"), block + "mlp.c_fc");
      for (auto& row : hidden) {
        for (auto& x : row) x = gelu(x);
      }
      add(stream, linear(hidden, block + "mlp.c_proj"));
    }
    stream = norm(stream, "transformer.ln_f");
    double sum = 0;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      double total = 0, of_target = 0;
      for (std::size_t token = 0; token < settings_.vocabulary; ++token) {
        double logit = 0;
        for (std::size_t i = 0; i < width; ++i) logit += stream[t][i] * tokens[token * width + i];
        total += std::exp(logit);
        if (token == static_cast<std::size_t>(targets[t])) of_target = logit;
      }
      sum += std::log(total) - of_target;
    }
    return sum;
  }

 private:
  std::span<const double> find(const std::string& name) const {
    for (const auto& parameter : layout_.parameters) {
      if (parameter.name == name) return flat_.subspan(parameter.first, parameter.count);
    }
    throw std::runtime_error("no parameter " + name);
  }

  static double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  static void add(Rows& stream, const Rows& more) {
    for (std::size_t t = 0; t < stream.size(); ++t) {
      for (std::size_t i = 0; i < stream[t].size(); ++i) stream[t][i] += more[t][i];
    }
  }

  Rows norm(const Rows& input, const std::string& name) const {
    const auto weight = find(name + ".weight");
    const auto bias = find(name + ".bias");
    Rows output = input;
    for (auto& row : output) {
      const auto size = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double x : row) mean += x / size;
      for (const double x : row) variance += (x - mean) * (x - mean) / size;
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
      }
    }
    return output;
  }

  /// The weight is [in, out].
  Rows linear(const Rows& input, const std::string& name) const {
    const auto weight = find(name + ".weight");
    const auto bias = find(name + ".bias");
    Rows output(input.size(), Row(bias.begin(), bias.end()));
    for (std::size_t t = 0; t < input.size(); ++t) {
      for (std::size_t i = 0; i < input[t].size(); ++i) {
        for (std::size_t k = 0; k < bias.size(); ++k) {
          output[t][k] += input[t][i] * weight[i * bias.size() + k];
        }
      }
    }
    return output;
  }

  /// Rows hold query, key and value of all heads, one after the other.
  Rows attend(const Rows& mixed) const {
    const std::size_t width = settings_.width;
    const std::size_t size = width / settings_.heads;
    Rows output(mixed.size(), Row(width));
    for (std::size_t head = 0; head < settings_.heads; ++head) {
      for (std::size_t t = 0; t < mixed.size(); ++t) {
        Row weights(t + 1);
        double total = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double product = 0;
          for (std::size_t i = 0; i < size; ++i) {
            product += mixed[t][head * size + i] * mixed[s][width + head * size + i];
          }
          weights[s] = std::exp(product / std::sqrt(static_cast<double>(size)));
          total += weights[s];
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t i = 0; i < size; ++i) {
            output[t][head * size + i] +=
                weights[s] / total * mixed[s][2 * width + head * size + i];
          }
        }
      }
    }
    return output;
  }

  const ModelSettings& settings_;
  const ParameterLayout& layout_;
  std::span<const double> flat_;
};

}  // namespace

double reference_loss(const ModelSettings& settings, const ParameterLayout& layout,
                      std::span<const double> flat, const Batch& batch) {
  const Reference reference(settings, layout, flat);
  double sum = 0;
  for (std::size_t i = 0; i < batch.sequences; ++i) {
    sum += reference.loss(batch.inputs.subspan(i * batch.context, batch.context),
                          batch.targets.subspan(i * batch.context, batch.context));
  }
  return sum / static_cast<double>(batch.inputs.size());
}

}  // namespace dlaunch::trainer
