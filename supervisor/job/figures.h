// How a whole job computes and communicates, made of what its ranks tell of themselves.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"

namespace dlaunch::supervisor::job {

class Ranks;

/// Of the last step that is told, unless it says otherwise; empty or 0: not known.
struct Figures {
  std::optional<double> gradient_norm;    ///< of the mean gradient, before it was clipped
  std::optional<double> validation_loss;  ///< the newest
  std::optional<Step> validation_step;    ///< steps completed when it was taken
  double step_seconds_p50 = 0;            ///< over the recent steps
  double step_seconds_p95 = 0;
  double waiting_seconds = 0;       ///< in which a rank only waited for others; mean over the ranks
  double bus_bytes_per_second = 0;  ///< of a rank while collectives were under way; mean
  std::uint64_t bytes_sent = 0;     ///< by all ranks together
  double flops_per_second = 0;      ///< of the model, by all ranks together
  std::optional<double> gemm_utilization;  ///< share of what matrix products reach there
  std::optional<double> peak_utilization;  ///< share of what the data sheets promise
  std::uint64_t memory_bytes = 0;          ///< resident; of the rank that has most now
  std::uint64_t memory_peak_bytes = 0;     ///< of the rank that once had most
  double memory_imbalance = 0;             ///< (largest - smallest) / largest of the peaks
};

/// More is worth a look: one rank holds what the others do not.
constexpr double kMemoryImbalanceMax = 0.05;

[[nodiscard]] Figures figures_of(const Ranks& ranks);

}  // namespace dlaunch::supervisor::job
