// Tells agent and log how far the training is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "protocol/worker_message.h"
#include "trainer/loop.h"

namespace dlaunch::trainer {

/// Between two lines of the log; the first and the last step always have one.
constexpr nanoseconds kLogInterval = 1s;

/// "step 12/2000  loss 3.41  tokens/s 41200"
[[nodiscard]] std::string step_line(std::uint64_t step, std::uint64_t steps, double loss,
                                    double tokens_per_second);

class ProgressTeller final : public Observer {
 public:
  using Tell = std::function<void(const protocol::worker::Progress&)>;
  using Log = std::function<void(const std::string&)>;

  ProgressTeller(const TrainerSettings& settings, std::uint64_t step, Tell tell, Log log);

  void entered(std::string_view phase) override;
  void completed(const StepFigures& figures) override;

 private:
  const std::uint64_t steps_;
  const std::uint64_t tokens_per_step_;
  protocol::worker::Progress progress_;
  Tell tell_;
  Log log_;
  double seconds_since_line_ = 0;
  std::uint64_t steps_since_line_ = 0;
  bool first_ = true;
};

}  // namespace dlaunch::trainer
