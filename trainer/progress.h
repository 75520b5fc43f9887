// Tells agent and log how far the training is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "protocol/worker_message.h"
#include "trainer/io/machine.h"
#include "trainer/loop.h"
#include "trainer/step_times.h"

namespace dlaunch::trainer {

/// Between two lines of the log; the first and the last step always have one.
constexpr nanoseconds kLogInterval = 1s;

/// "step 12/2000  loss 3.41  tokens/s 41200"
[[nodiscard]] std::string step_line(std::uint64_t step, std::uint64_t steps, double loss,
                                    double tokens_per_second);

/// "step 100/2000  validation loss 3.52"
[[nodiscard]] std::string validation_line(std::uint64_t step, std::uint64_t steps, double loss);

/// What a rank's speed is held against; 0: not known.
struct Rates {
  double gemm_flops_per_second = 0;  ///< measured
  double peak_flops_per_second = 0;  ///< by the data sheet
};

/// Where the figures that are no training come from.
struct Gauges {
  double flops_per_step = 0;  ///< of the model on this rank
  std::function<MemoryUse()> memory;
  std::function<Rates()> rates;  ///< called once, between two steps; may take a moment
};

class ProgressTeller final : public Observer {
 public:
  using Tell = std::function<void(const protocol::worker::Progress&)>;
  using Log = std::function<void(const std::string&)>;

  ProgressTeller(const TrainerSettings& settings, std::uint64_t step, Gauges gauges, Tell tell,
                 Log log);

  void entered(std::string_view phase) override;
  void completed(const StepFigures& figures) override;
  void validated(std::uint64_t step, double loss) override;

 private:
  void set_figures(const StepFigures& figures);

  const std::uint64_t steps_;
  const std::uint64_t tokens_per_step_;
  const Gauges gauges_;
  StepTimes times_;
  protocol::worker::Progress progress_;
  Tell tell_;
  Log log_;
  double seconds_since_line_ = 0;
  std::uint64_t steps_since_line_ = 0;
  bool first_ = true;
  /// The first steps fill caches, and a recovery ends with the first.
  static constexpr int kStepsBeforeRates = 3;
  int steps_before_rates_ = kStepsBeforeRates;
};

}  // namespace dlaunch::trainer
