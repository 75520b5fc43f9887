// The optimizer's arithmetic. Elementwise, so its bits do not depend on how the compiler vectorizes
// it; this file is built without contraction of a*b+c (trainer/CMakeLists.txt).
#include "trainer/parallel/adamw.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/numbers.h"

namespace dlaunch::trainer {

namespace {

constexpr float kEpsilon = 1e-8F;

struct Factors {
  float scale, beta1, beta2, decay, step_size, root_correction;
};

void update(std::size_t count, float* __restrict values, float* __restrict moments,
            float* __restrict second_moments, const float* __restrict gradients,
            const Factors& by) {
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = gradients[i] * by.scale;
    moments[i] = by.beta1 * moments[i] + (1 - by.beta1) * gradient;
    second_moments[i] = by.beta2 * second_moments[i] + (1 - by.beta2) * gradient * gradient;
    const float divisor = std::sqrt(second_moments[i]) * by.root_correction + kEpsilon;
    values[i] = values[i] * by.decay - by.step_size * moments[i] / divisor;
  }
}

double sum_of_squares(std::span<const float> values) {
  // Sixteen sums side by side let the compiler use vectors without changing the order.
  std::array<double, 16> sums{};
  const std::size_t whole = values.size() / sums.size() * sums.size();
  for (std::size_t i = 0; i < whole; i += sums.size()) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const double value = values[i + k];
      sums[k] += value * value;
    }
  }
  double sum = 0;
  for (const double part : sums) sum += part;
  for (const double value : values.subspan(whole)) sum += value * value;
  return sum;
}

}  // namespace

double learning_rate_at(const TrainerSettings& settings, std::uint64_t step) {
  if (step >= settings.warmup_steps) {
    if (settings.schedule == Schedule::constant) return settings.learning_rate;
    if (step >= settings.decay_steps) return settings.min_learning_rate;
    const double way = static_cast<double>(step - settings.warmup_steps) /
                       static_cast<double>(settings.decay_steps - settings.warmup_steps);
    return settings.min_learning_rate + (settings.learning_rate - settings.min_learning_rate) *
                                            0.5 * (1 + cosine_of_half_turns(way));
  }
  return settings.learning_rate * static_cast<double>(step + 1) /
         static_cast<double>(settings.warmup_steps);
}

void add_squares(const ParameterLayout& layout, std::span<const float> values, ExactSum& sum) {
  for (const auto& parameter : layout.parameters) {
    const auto row_values = parameter.row_values();
    for (std::uint64_t row = 0; row < parameter.rows; ++row) {
      sum.add(sum_of_squares(values.subspan(parameter.first + row * row_values, row_values)));
    }
  }
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1.0; }

void adamw_step(const ParameterLayout& layout, const AdamWState& state,
                std::span<const float> gradients, double scale, const TrainerSettings& settings,
                double learning_rate, std::uint64_t step) {
  const double correction1 = 1 - power(settings.beta1, step);
  const double correction2 = 1 - power(settings.beta2, step);
  for (const auto& parameter : layout.parameters) {
    const double decay = parameter.decays ? 1 - learning_rate * settings.weight_decay : 1;
    const Factors by{static_cast<float>(scale),
                     static_cast<float>(settings.beta1),
                     static_cast<float>(settings.beta2),
                     static_cast<float>(decay),
                     static_cast<float>(learning_rate / correction1),
                     static_cast<float>(1 / std::sqrt(correction2))};
    update(parameter.count, &state.values[parameter.first], &state.moments[parameter.first],
           &state.second_moments[parameter.first], &gradients[parameter.first], by);
  }
}

}  // namespace dlaunch::trainer
