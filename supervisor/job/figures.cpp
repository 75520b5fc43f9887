#include "supervisor/job/figures.h"

#include <algorithm>

#include "supervisor/job/ranks.h"

namespace dlaunch::supervisor::job {
namespace {

struct Sums {
  std::size_t ranks = 0;
  std::size_t ranks_on_bus = 0;
  double waiting = 0;
  double bus = 0;
  double flops = 0;
  double gemm = 0;
  double peak = 0;
  bool all_measured = true;
  bool all_promised = true;
};

void add_memory(const protocol::StepFigures& told, bool first, std::uint64_t& smallest_peak,
                Figures& figures) {
  figures.memory_bytes = std::max<std::uint64_t>(figures.memory_bytes, told.memory_bytes());
  figures.memory_peak_bytes =
      std::max<std::uint64_t>(figures.memory_peak_bytes, told.memory_peak_bytes());
  smallest_peak =
      first ? told.memory_peak_bytes() : std::min(smallest_peak, told.memory_peak_bytes());
}

void add_speed(const protocol::WorkerStatus& status, Sums& sums) {
  const auto& told = status.figures();
  sums.waiting += status.waiting_seconds();
  if (told.collective_seconds() > 0) {
    sums.bus += static_cast<double>(told.bytes_sent()) / told.collective_seconds();
    ++sums.ranks_on_bus;
  }
  sums.flops += told.flops();
  sums.gemm += told.gemm_flops_per_second();
  sums.peak += told.peak_flops_per_second();
  sums.all_measured = sums.all_measured && told.gemm_flops_per_second() > 0;
  sums.all_promised = sums.all_promised && told.peak_flops_per_second() > 0;
}

/// The same on all ranks, so one says it.
void set_told(const protocol::StepFigures& told, Figures& figures) {
  if (told.has_gradient_norm()) figures.gradient_norm = told.gradient_norm();
  if (told.has_validation_loss()) figures.validation_loss = told.validation_loss();
  if (told.has_validation_step()) figures.validation_step = Step{told.validation_step()};
  figures.step_seconds_p50 = told.step_seconds_p50();
  figures.step_seconds_p95 = told.step_seconds_p95();
}

}  // namespace

Figures figures_of(const Ranks& ranks) {
  Figures figures;
  Sums sums;
  std::uint64_t smallest_peak = 0;
  for (const auto& [number, rank] : ranks.all()) {
    if (!rank.status.has_figures()) continue;
    const auto& told = rank.status.figures();
    if (sums.ranks == 0) set_told(told, figures);
    add_memory(told, sums.ranks == 0, smallest_peak, figures);
    add_speed(rank.status, sums);
    figures.bytes_sent += told.bytes_sent();
    ++sums.ranks;
  }
  if (sums.ranks == 0) return figures;
  figures.waiting_seconds = sums.waiting / static_cast<double>(sums.ranks);
  if (sums.ranks_on_bus > 0) {
    figures.bus_bytes_per_second = sums.bus / static_cast<double>(sums.ranks_on_bus);
  }
  if (figures.memory_peak_bytes > 0) {
    figures.memory_imbalance = static_cast<double>(figures.memory_peak_bytes - smallest_peak) /
                               static_cast<double>(figures.memory_peak_bytes);
  }
  const auto seconds = ranks.step_seconds();
  if (seconds <= 0) return figures;
  figures.flops_per_second = sums.flops / seconds;
  // A share of what only some ranks have told would be too large.
  if (sums.all_measured) figures.gemm_utilization = figures.flops_per_second / sums.gemm;
  if (sums.all_promised) figures.peak_utilization = figures.flops_per_second / sums.peak;
  return figures;
}

}  // namespace dlaunch::supervisor::job
