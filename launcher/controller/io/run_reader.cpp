// The reading side of run.db.
#include <utility>

#include "launcher/controller/io/run_store.h"

namespace dlaunch::launcher::controller {
namespace {

std::optional<std::int64_t> optional_integer(const SqliteStatement& statement, int column) {
  if (statement.is_null(column)) return std::nullopt;
  return statement.integer(column);
}

}  // namespace

Result<RunReader> RunReader::open(const std::string& directory) {
  auto database = Sqlite::open(directory + "/run.db", Sqlite::Mode::read);
  if (!database) return tl::unexpected(database.error());
  // A file whose writer has only just made it says nothing yet, as one that is not there.
  const auto last_table = database->prepare("SELECT code FROM ended");
  if (!last_table) return tl::unexpected(last_table.error());
  return RunReader(std::move(*database));
}

Result<std::optional<StatusRow>> RunReader::status() {
  auto statement = run_.prepare("SELECT time, json FROM status");
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return std::optional<StatusRow>();
  return std::optional(StatusRow{statement->real(0), statement->text(1)});
}

Result<std::vector<EventRow>> RunReader::events(std::uint64_t after_id, std::size_t rows_max) {
  return read_events(run_, after_id, rows_max);
}

Result<std::vector<EventRow>> read_events(Sqlite& run, std::uint64_t after_id,
                                          std::size_t rows_max) {
  auto statement = run.prepare("SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?");
  if (!statement) return tl::unexpected(statement.error());
  statement->bind(static_cast<std::int64_t>(after_id)).bind(static_cast<std::int64_t>(rows_max));
  std::vector<EventRow> rows;
  const auto all = statement->for_each_row([&] {
    EventRow event;
    event.id = static_cast<std::uint64_t>(statement->integer(0));
    event.time = statement->real(1);
    event.mono_ns = statement->integer(2);
    event.event = statement->text(3);
    event.generation = static_cast<std::uint64_t>(statement->integer(4));
    if (!statement->is_null(5)) event.host = statement->text(5);
    event.rank = optional_integer(*statement, 6);
    event.step = optional_integer(*statement, 7);
    event.detail = statement->text(8);
    rows.push_back(std::move(event));
  });
  if (!all) return tl::unexpected(all.error());
  return rows;
}

Result<std::vector<IncidentRow>> RunReader::incidents() { return read_incidents(run_); }

Result<std::optional<EndRow>> RunReader::end() {
  auto statement = run_.prepare("SELECT code, sentence, time FROM ended");
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return std::optional<EndRow>();
  return std::optional(
      EndRow{static_cast<int>(statement->integer(0)), statement->text(1), statement->real(2)});
}

Result<RunOwner> RunReader::owner() {
  auto statement = run_.prepare("SELECT key, value FROM meta");
  if (!statement) return tl::unexpected(statement.error());
  RunOwner owner;
  const auto all = statement->for_each_row([&] {
    const auto key = statement->text(0);
    if (key == "host") owner.host = statement->text(1);
    if (key == "boot_id") owner.boot_id = statement->text(1);
    if (key == "pid") owner.pid = std::stoll(statement->text(1));
  });
  if (!all) return tl::unexpected(all.error());
  return owner;
}

Result<void> write_end_if_missing(const std::string& directory, const EndRow& end) {
  auto database = Sqlite::open(directory + "/run.db", Sqlite::Mode::write);
  if (!database) return tl::unexpected(database.error());
  auto statement = database->prepare("INSERT OR IGNORE INTO ended VALUES (1, ?, ?, ?)");
  if (!statement) return tl::unexpected(statement.error());
  statement->bind(std::int64_t{end.code}).bind(std::string_view(end.sentence)).bind(end.time);
  const auto done = statement->step();
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace dlaunch::launcher::controller
