// metrics.db: what a run computed, step by step, for plots. No decision rests on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "launcher/controller/io/sqlite.h"
#include "launcher/controller/run_record.h"

namespace dlaunch::launcher::controller {

/// The table's columns, and those that a file of an older dlaunch lacks.
[[nodiscard]] Result<void> set_up_metrics(Sqlite& database);
[[nodiscard]] Result<void> write_metrics(Sqlite& database, const MetricRow& row);

/// The rows of an equal share of the time, as their means.
struct MetricBucket {
  UnixSeconds time = 0;    ///< of its last row
  std::uint64_t step = 0;  ///< the last
  std::optional<double> loss;
  double step_seconds = 0;
  double tokens_per_second = 0;
};
/// The whole run in at most `buckets_max` of them, oldest first. Those without rows are left out.
[[nodiscard]] Result<std::vector<MetricBucket>> read_metrics(Sqlite& database,
                                                             std::size_t buckets_max);

struct Validation {
  UnixSeconds time = 0;
  double loss = 0;
};
/// Each once, oldest first; the newest `rows_max`.
[[nodiscard]] Result<std::vector<Validation>> read_validations(Sqlite& database,
                                                               std::size_t rows_max);

}  // namespace dlaunch::launcher::controller
