// Keeps the last step's numbers beside the phase of the next.
#include "trainer/progress.h"

#include <cmath>
#include <cstdio>
#include <utility>

namespace dlaunch::trainer {

std::string step_line(std::uint64_t step, std::uint64_t steps, double loss,
                      double tokens_per_second) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "  loss %.4g  tokens/s %.0f", loss, tokens_per_second);
  return "step " + std::to_string(step) + "/" + std::to_string(steps) + numbers;
}

std::string validation_line(std::uint64_t step, std::uint64_t steps, double loss) {
  char number[64];
  std::snprintf(number, sizeof number, "  validation loss %.4g", loss);
  return "step " + std::to_string(step) + "/" + std::to_string(steps) + number;
}

ProgressTeller::ProgressTeller(const TrainerSettings& settings, std::uint64_t step, Gauges gauges,
                               Tell tell, Log log)
    : steps_(settings.steps),
      tokens_per_step_(settings.tokens_per_step()),
      gauges_(std::move(gauges)),
      tell_(std::move(tell)),
      log_(std::move(log)) {
  progress_.step = Step{step};
}

void ProgressTeller::entered(std::string_view phase) {
  progress_.phase = phase;
  tell_(progress_);
}

void ProgressTeller::completed(const StepFigures& figures) {
  progress_.step = Step{figures.step};
  progress_.loss = figures.loss;
  progress_.seconds = figures.seconds;
  progress_.waiting = figures.waiting;
  progress_.tokens = tokens_per_step_;
  set_figures(figures);
  tell_(progress_);

  seconds_since_line_ += figures.seconds;
  ++steps_since_line_;
  if (!std::exchange(first_, false) && figures.step < steps_ &&
      seconds_since_line_ < to_seconds(kLogInterval)) {
    return;
  }
  const auto tokens = static_cast<double>(std::exchange(steps_since_line_, 0) * tokens_per_step_);
  log_(step_line(figures.step, steps_, figures.loss,
                 tokens / std::exchange(seconds_since_line_, 0)));
}

void ProgressTeller::validated(std::uint64_t step, double loss) {
  if (std::isfinite(loss)) {
    progress_.figures.validation_loss = loss;
    progress_.figures.validation_step = step;
    tell_(progress_);
  }
  log_(validation_line(step, steps_, loss));
}

void ProgressTeller::set_figures(const StepFigures& figures) {
  auto& told = progress_.figures;
  times_.add(figures.seconds);
  told.gradient_norm = figures.norm;
  told.seconds_p50 = times_.percentile(0.5);
  told.seconds_p95 = times_.percentile(0.95);
  told.bytes_sent = figures.bytes_sent;
  told.collective_seconds = figures.collective_seconds;
  told.flops = gauges_.flops_per_step;
  const auto memory = gauges_.memory();
  told.memory_bytes = memory.now;
  told.memory_peak_bytes = memory.peak;
  if (steps_before_rates_ == 0 || --steps_before_rates_ > 0) return;
  const auto rates = gauges_.rates();
  told.gemm_flops_per_second = rates.gemm_flops_per_second;
  told.peak_flops_per_second = rates.peak_flops_per_second;
}

}  // namespace dlaunch::trainer
