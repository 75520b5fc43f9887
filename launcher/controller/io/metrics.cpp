#include "launcher/controller/io/metrics.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

namespace dlaunch::launcher::controller {
namespace {

/// In the order in which `write_metrics` binds them.
constexpr std::array<std::pair<const char*, const char*>, 12> kFigures{{
    {"gradient_norm", "REAL"},
    {"validation_loss", "REAL"},
    {"validation_step", "INTEGER"},
    {"step_seconds_p50", "REAL"},
    {"step_seconds_p95", "REAL"},
    {"waiting_seconds", "REAL"},
    {"bus_bytes_per_second", "REAL"},
    {"bytes_sent", "INTEGER"},
    {"flops_per_second", "REAL"},
    {"gemm_utilization", "REAL"},
    {"peak_utilization", "REAL"},
    {"memory_peak_bytes", "INTEGER"},
}};

std::string creation() {
  std::string columns =
      "time REAL NOT NULL, step INTEGER NOT NULL, loss REAL, tokens_per_second REAL NOT NULL, "
      "step_seconds REAL NOT NULL";
  for (const auto& [name, type] : kFigures) columns += std::string(", ") + name + " " + type;
  return "CREATE TABLE IF NOT EXISTS steps(" + columns + ")";
}

Result<std::set<std::string>> columns(Sqlite& database) {
  auto statement = database.prepare("SELECT name FROM pragma_table_info('steps')");
  if (!statement) return tl::unexpected(statement.error());
  std::set<std::string> names;
  const auto all = statement->for_each_row([&] { names.insert(statement->text(0)); });
  if (!all) return tl::unexpected(all.error());
  return names;
}

std::string insertion() {
  std::string names = "time, step, loss, tokens_per_second, step_seconds";
  std::string places = "?, ?, ?, ?, ?";
  for (const auto& [name, type] : kFigures) {
    names += std::string(", ") + name;
    places += ", ?";
  }
  return "INSERT INTO steps(" + names + ") VALUES (" + places + ")";
}

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

std::optional<double> real_or_nothing(const SqliteStatement& statement, int column) {
  if (statement.is_null(column)) return std::nullopt;
  return statement.real(column);
}

}  // namespace

Result<void> set_up_metrics(Sqlite& database) {
  if (auto made = database.execute(creation()); !made) return made;
  const auto known = columns(database);
  if (!known) return tl::unexpected(known.error());
  for (const auto& [name, type] : kFigures) {
    if (known->contains(name)) continue;
    const auto added =
        database.execute(std::string("ALTER TABLE steps ADD COLUMN ") + name + " " + type);
    if (!added) return added;
  }
  return {};
}

Result<void> write_metrics(Sqlite& database, const MetricRow& row) {
  auto statement = database.prepare(insertion());
  if (!statement) return tl::unexpected(statement.error());
  const auto& figures = row.figures;
  std::optional<std::int64_t> validation_step;
  if (figures.validation_step) validation_step = as_signed(figures.validation_step->value);
  statement->bind(row.time).bind(as_signed(row.step)).bind(row.loss);
  statement->bind(row.tokens_per_second).bind(row.step_seconds);
  statement->bind(figures.gradient_norm).bind(figures.validation_loss).bind(validation_step);
  statement->bind(figures.step_seconds_p50).bind(figures.step_seconds_p95);
  statement->bind(figures.waiting_seconds).bind(figures.bus_bytes_per_second);
  statement->bind(as_signed(figures.bytes_sent)).bind(figures.flops_per_second);
  statement->bind(figures.gemm_utilization).bind(figures.peak_utilization);
  statement->bind(as_signed(figures.memory_peak_bytes));
  const auto done = statement->step();
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::vector<MetricBucket>> read_metrics(Sqlite& database, std::size_t buckets_max) {
  auto statement = database.prepare(
      "SELECT max(time), max(step), avg(loss), avg(step_seconds), avg(tokens_per_second) FROM "
      "steps, "
      "(SELECT min(time) AS begun, max(max(time) - min(time), 1e-9) AS all_time FROM steps) "
      "GROUP BY min(CAST((time - begun) / all_time * ?1 AS INTEGER), ?1 - 1) ORDER BY 1");
  if (!statement) return tl::unexpected(statement.error());
  statement->bind(as_signed(buckets_max));
  std::vector<MetricBucket> buckets;
  const auto all = statement->for_each_row([&] {
    buckets.push_back({statement->real(0), static_cast<std::uint64_t>(statement->integer(1)),
                       real_or_nothing(*statement, 2), statement->real(3), statement->real(4)});
  });
  if (!all) return tl::unexpected(all.error());
  return buckets;
}

Result<std::vector<Validation>> read_validations(Sqlite& database, std::size_t rows_max) {
  const auto known = columns(database);
  if (!known) return tl::unexpected(known.error());
  std::vector<Validation> validations;
  if (!known->contains("validation_step")) return validations;  // an older dlaunch ran the job
  auto statement = database.prepare(
      "SELECT min(time), validation_loss FROM steps WHERE validation_loss IS NOT NULL "
      "GROUP BY validation_step ORDER BY validation_step DESC LIMIT ?");
  if (!statement) return tl::unexpected(statement.error());
  statement->bind(as_signed(rows_max));
  const auto all = statement->for_each_row([&] {
    validations.push_back({statement->real(0), statement->real(1)});
  });
  if (!all) return tl::unexpected(all.error());
  std::ranges::reverse(validations);
  return validations;
}

}  // namespace dlaunch::launcher::controller
