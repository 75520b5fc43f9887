// What a run leaves on disk, row by row, and what a restarted controller makes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "launcher/controller/output_tail.h"
#include "supervisor/job/figures.h"
#include "supervisor/job/recovered.h"

namespace dlaunch::launcher::controller {

/// Must be on disk before what rests on it; reported with its ticket.
struct JournalRow {
  std::uint64_t ticket = 0;
  std::string kind;
  std::string json;
};
/// One line of `dlaunch events`. `id` counts within the job, over all incarnations, from 1.
struct EventRow {
  std::uint64_t id = 0;
  UnixSeconds time = 0;
  std::int64_t mono_ns = 0;
  std::string event;
  std::uint64_t generation = 0;
  std::optional<std::string> host;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> step;
  std::string detail;
};
/// Replaces the row of the same id.
struct IncidentRow {
  std::uint64_t id = 0;
  std::string json;
};
/// Replaces the one before.
struct StatusRow {
  UnixSeconds time = 0;
  std::string json;
};
struct CheckpointRow {
  std::uint64_t step = 0;
  UnixSeconds time = 0;
};
/// The job is over; a later start of the same job (resume) takes it back.
struct EndRow {
  int code = 0;
  std::string sentence;
  UnixSeconds time = 0;
};
/// For `metrics.db`, which may lose its last seconds.
struct MetricRow {
  UnixSeconds time = 0;
  std::uint64_t step = 0;
  std::optional<double> loss;
  double tokens_per_second = 0;
  double step_seconds = 0;
  supervisor::job::Figures figures;
};
/// The last output of all ranks of a generation; replaces the one before. In a file of its own,
/// which may be missing after a full disk.
struct OutputRow {
  Generation generation;
  std::vector<OutputPiece> pieces;
};
using Row = std::variant<JournalRow, EventRow, IncidentRow, StatusRow, CheckpointRow, EndRow,
                         MetricRow, OutputRow>;

/// `journal`: oldest first. Kinds and content: supervisor/job/journal_rows.h.
[[nodiscard]] supervisor::job::Recovered recover(const std::vector<JournalRow>& journal,
                                                 std::uint64_t incidents);

}  // namespace dlaunch::launcher::controller
