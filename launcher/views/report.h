// What became of a job's time: goodput, incidents by cause, recovery by phase, and curves.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/views/chart.h"

namespace dlaunch::launcher::views {

/// In this order in time, and as an incident's `seconds` names them.
inline constexpr std::array<const char*, 6> kPhases = {"detect",  "abort",   "replace",
                                                       "regroup", "restore", "first_step"};

/// A report is made of events of these names, and of the one before each `controller_restarted`.
[[nodiscard]] bool is_reported(const std::string& event);

/// Seconds of a job's life. A run reaches from its first event to the job's end, or to the last
/// that was heard before a controller came that found nothing to adopt; the time between runs
/// belongs to nobody.
struct TimeSpent {
  std::uint64_t runs = 0;
  double total = 0;       ///< of all runs
  double starting = 0;    ///< until the first step of each, with what went wrong before it
  double recovering = 0;  ///< from a fault to the next new step; to the end of the run without one
  double redoing = 0;     ///< of these, steps that were done again; by a median step
  /// What is left: steps that count, checkpoints between them among it.
  [[nodiscard]] double productive() const;
  /// Share of the total; nullopt: nothing has run.
  [[nodiscard]] std::optional<double> goodput() const;
};

/// All closed incidents of one cause; seconds are medians but for the worst.
struct CauseReport {
  std::string cause;
  std::uint64_t incidents = 0;
  std::uint64_t lost_steps = 0;
  double total = 0;
  double worst = 0;
  std::array<double, kPhases.size()> phases{};
};

/// Means of a stretch of time, or one validation.
struct ReportPoint {
  double time = 0;  ///< Unix seconds
  std::optional<double> loss, validation_loss;
  double step_seconds = 0;
};

struct Report {
  std::string job, id, state;
  TimeSpent time;
  std::vector<CauseReport> causes;  ///< the most frequent first
  std::uint64_t open_incidents = 0;
  std::vector<Chart> charts;  ///< loss and step time
};

/// `events` and `incidents` as `dlaunch events --json` and status have them, oldest first; all that
/// are reported (`is_reported`), and perhaps others. `now`: Unix seconds, while the job lives; it
/// ends the last run.
[[nodiscard]] Report make_report(const nlohmann::json& status,
                                 const std::vector<nlohmann::json>& events,
                                 const std::vector<nlohmann::json>& incidents,
                                 const std::vector<ReportPoint>& points, std::optional<double> now);

[[nodiscard]] std::string report_page(const Report& report);
/// Schema 1, without the curves: those are in metrics.db.
[[nodiscard]] nlohmann::json report_json(const Report& report);

}  // namespace dlaunch::launcher::views
