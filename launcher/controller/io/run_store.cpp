#include "launcher/controller/io/run_store.h"

#include <utility>

#include "base/overloaded.h"
#include "launcher/controller/io/metrics.h"
#include "launcher/controller/io/run_files.h"

namespace dlaunch::launcher::controller {
namespace {

constexpr const char* kSchemaVersion = "1";

constexpr const char* kRunSchema = R"sql(
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS journal(
  id INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL, ticket INTEGER NOT NULL,
  kind TEXT NOT NULL, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events(
  id INTEGER PRIMARY KEY, time REAL NOT NULL, mono_ns INTEGER NOT NULL, event TEXT NOT NULL,
  generation INTEGER NOT NULL, host TEXT, rank INTEGER, step INTEGER, detail TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS incidents(id INTEGER PRIMARY KEY, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoints(step INTEGER PRIMARY KEY, time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS status(
  id INTEGER PRIMARY KEY CHECK (id = 1), time REAL NOT NULL, json TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ended(
  id INTEGER PRIMARY KEY CHECK (id = 1), code INTEGER NOT NULL, sentence TEXT NOT NULL,
  time REAL NOT NULL);
)sql";

std::string run_path(const std::string& directory) { return directory + "/run.db"; }

Result<void> run(Result<SqliteStatement> statement) {
  if (!statement) return tl::unexpected(statement.error());
  const auto done = statement->step();
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<std::optional<std::string>> meta(Sqlite& database, const char* key) {
  auto statement = database.prepare("SELECT value FROM meta WHERE key = ?");
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->bind(std::string_view(key)).step();
  if (!row) return tl::unexpected(row.error());
  if (!*row) return std::optional<std::string>();
  return std::optional(statement->text(0));
}

Result<void> set_meta(Sqlite& database, const char* key, const std::string& value) {
  auto statement = database.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)");
  if (!statement) return tl::unexpected(statement.error());
  statement->bind(std::string_view(key)).bind(std::string_view(value));
  return run(std::move(statement));
}

Result<std::uint64_t> largest(Sqlite& database, const char* table) {
  auto statement = database.prepare(std::string("SELECT coalesce(max(id), 0) FROM ") + table);
  if (!statement) return tl::unexpected(statement.error());
  const auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  return static_cast<std::uint64_t>(statement->integer(0));
}

Result<std::vector<JournalRow>> journal(Sqlite& database) {
  auto statement = database.prepare("SELECT ticket, kind, json FROM journal ORDER BY id");
  if (!statement) return tl::unexpected(statement.error());
  std::vector<JournalRow> rows;
  const auto all = statement->for_each_row([&] {
    rows.push_back({static_cast<std::uint64_t>(statement->integer(0)), statement->text(1),
                    statement->text(2)});
  });
  if (!all) return tl::unexpected(all.error());
  return rows;
}

/// Not part of the transaction: no decision rests on it.
bool is_beside_run_db(const Row& row) {
  return std::holds_alternative<MetricRow>(row) || std::holds_alternative<OutputRow>(row);
}

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

/// Runs `body` between BEGIN and COMMIT; whatever fails takes all of it back.
template <class Body>
Result<void> in_transaction(Sqlite& database, Body body) {
  if (auto begun = database.execute("BEGIN IMMEDIATE"); !begun) return begun;
  Result<void> done = body();
  if (done) done = database.execute("COMMIT");
  if (!done) (void)database.execute("ROLLBACK");  // fails where SQLite rolled back by itself
  return done;
}

/// Each wait for the disk is a wait of the start. In WAL mode the first decision's commit takes the
/// schema to the disk with it.
template <class Schema>
Result<void> set_up(Sqlite& database, Schema make_schema, bool network, bool durable) {
  std::string mode = durable ? "" : "PRAGMA synchronous = OFF; ";
  mode += network ? "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = DELETE;"
                  : "PRAGMA journal_mode = WAL;";
  if (durable && !network) mode += " PRAGMA synchronous = NORMAL;";
  if (auto set = database.execute(mode); !set) return set;
  auto made = in_transaction(database, [&] { return make_schema(database); });
  if (!made || !durable) return made;
  return database.execute("PRAGMA synchronous = FULL;");
}

}  // namespace

Result<std::vector<IncidentRow>> read_incidents(Sqlite& database) {
  auto statement = database.prepare("SELECT id, json FROM incidents ORDER BY id");
  if (!statement) return tl::unexpected(statement.error());
  std::vector<IncidentRow> rows;
  const auto all = statement->for_each_row([&] {
    rows.push_back({static_cast<std::uint64_t>(statement->integer(0)), statement->text(1)});
  });
  if (!all) return tl::unexpected(all.error());
  return rows;
}

Result<RunStore> RunStore::open(const std::string& directory) {
  const bool network = is_on_network(directory);
  auto database = Sqlite::open(run_path(directory), Sqlite::Mode::write);
  if (!database) return tl::unexpected(database.error());
  const auto make_schema = [](Sqlite& run) { return run.execute(kRunSchema); };
  if (auto set = set_up(*database, make_schema, network, true); !set) {
    return tl::unexpected(set.error());
  }
  auto metrics = Sqlite::open(directory + "/metrics.db", Sqlite::Mode::write);
  if (!metrics) return tl::unexpected(metrics.error());
  if (auto set = set_up(*metrics, set_up_metrics, network, false); !set) {
    return tl::unexpected(set.error());
  }
  RunStore store(directory, std::move(*database), std::move(*metrics));
  if (network) {
    store.snapshots_ = true;
    store.notice_ = directory +
                    " is on a network file system: run.db is kept without a write-ahead log, "
                    "decisions wait longer for it. Set XDG_STATE_HOME to a local directory";
  }
  return store;
}

Result<RunStart> RunStore::begin(const RunOwner& owner) {
  RunStart start;
  const auto body = [&]() -> Result<void> {
    const auto schema = meta(run_, "schema");
    if (!schema) return tl::unexpected(schema.error());
    if (*schema && **schema != kSchemaVersion) {
      return failure(std::errc::not_supported, "reading run.db: it has schema " + **schema +
                                                   ", this dlaunch knows " + kSchemaVersion +
                                                   "; use the dlaunch that started the job");
    }
    const auto before = meta(run_, "incarnation");
    if (!before) return tl::unexpected(before.error());
    start.incarnation.value = 1 + (*before ? std::stoull(**before) : 0);
    const auto secret = meta(run_, "secret");
    if (!secret) return tl::unexpected(secret.error());
    const auto kept = *secret ? rendezvous::secret_from_hex(**secret) : std::nullopt;
    start.secret = kept ? *kept : rendezvous::make_secret();
    const auto port = meta(run_, "port");
    if (!port) return tl::unexpected(port.error());
    if (*port) start.port = static_cast<std::uint16_t>(std::stoul(**port));
    const auto host = meta(run_, "host");
    const auto boot = meta(run_, "boot_id");
    start.same_clock = host && boot && *host == owner.host && *boot == owner.boot_id;
    const std::array<std::pair<const char*, std::string>, 6> values = {{
        {"schema", kSchemaVersion},
        {"incarnation", std::to_string(start.incarnation.value)},
        {"secret", rendezvous::to_hex(start.secret)},
        {"host", owner.host},
        {"boot_id", owner.boot_id},
        {"pid", std::to_string(owner.pid)},
    }};
    for (const auto& [key, value] : values) {
      if (auto set = set_meta(run_, key, value); !set) return set;
    }
    return recover_into(start);
  };
  if (auto begun = in_transaction(run_, body); !begun) return tl::unexpected(begun.error());
  return start;
}

Result<void> RunStore::recover_into(RunStart& start) {
  incarnation_ = start.incarnation.value;
  auto rows = journal(run_);
  if (!rows) return tl::unexpected(rows.error());
  auto incidents = read_incidents(run_);
  if (!incidents) return tl::unexpected(incidents.error());
  const auto last_event = largest(run_, "events");
  if (!last_event) return tl::unexpected(last_event.error());
  start.last_event_id = *last_event;
  const auto last_incident = incidents->empty() ? 0 : incidents->back().id;
  start.recovered = recover(*rows, last_incident);
  start.incidents = std::move(*incidents);
  const auto ended = largest(run_, "ended");
  if (!ended) return tl::unexpected(ended.error());
  // An end that the keeper wrote says nothing of the agents: they may still train.
  start.resumed = *ended > 0 && (start.recovered.ended || !start.recovered.plan);
  if (start.resumed) {
    rows->push_back({0, "resumed", "{}"});
    if (auto inserted = insert(Row(rows->back())); !inserted) return inserted;
    start.recovered = recover(*rows, last_incident);
  }
  start.recovered.same_clock = start.same_clock;
  return run_.execute("DELETE FROM ended");
}

Result<void> RunStore::set_port(std::uint16_t port) {
  // Of use to the next controller after a crash of this one; after a crash of the machine no agent
  // dials this port any more.
  if (auto less = run_.execute("PRAGMA synchronous = NORMAL;"); !less) return less;
  auto done = set_meta(run_, "port", std::to_string(port));
  if (auto full = run_.execute("PRAGMA synchronous = FULL;"); !full) return full;
  return done;
}

/// Where the file system keeps no locks between machines, two controllers may have it open.
Result<void> RunStore::must_be_newest() {
  const auto newest = meta(run_, "incarnation");
  if (!newest) return tl::unexpected(newest.error());
  if (!*newest || **newest == std::to_string(incarnation_)) return {};
  return failure(std::errc::operation_not_permitted,
                 "writing run.db: it belongs to a newer controller of this job, incarnation " +
                     newest->value_or("unknown"));
}

Result<void> RunStore::write(const std::vector<Row>& rows) {
  const auto body = [&]() -> Result<void> {
    if (auto newest = must_be_newest(); !newest) return newest;
    for (const auto& row : rows) {
      if (is_beside_run_db(row)) continue;
      if (auto inserted = insert(row); !inserted) return inserted;
    }
    return {};
  };
  if (auto written = in_transaction(run_, body); !written) return written;
  for (const auto& row : rows) {
    // What is lost here is a point of a curve or a copy; the next one is tried again.
    if (is_beside_run_db(row)) (void)insert(row);
    const auto* status = std::get_if<StatusRow>(&row);
    if (snapshots_ && status != nullptr) (void)write_status_snapshot(directory_, status->json);
  }
  return {};
}

Result<std::vector<EventRow>> RunStore::events(std::uint64_t after_id, std::size_t rows_max) {
  return read_events(run_, after_id, rows_max);
}

Result<void> RunStore::insert(const Row& row) {
  const auto prepared = [](Sqlite& database, const char* sql, auto bind) -> Result<void> {
    auto statement = database.prepare(sql);
    if (!statement) return tl::unexpected(statement.error());
    bind(*statement);
    return run(std::move(statement));
  };
  return std::visit(
      Overloaded{
          [&](const JournalRow& r) {
            return prepared(
                run_, "INSERT INTO journal(incarnation, ticket, kind, json) VALUES (?, ?, ?, ?)",
                [&](SqliteStatement& s) {
                  s.bind(as_signed(incarnation_)).bind(as_signed(r.ticket));
                  s.bind(std::string_view(r.kind)).bind(std::string_view(r.json));
                });
          },
          [&](const EventRow& r) {
            return prepared(run_, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                            [&](SqliteStatement& s) {
                              s.bind(as_signed(r.id)).bind(r.time).bind(r.mono_ns);
                              s.bind(std::string_view(r.event)).bind(as_signed(r.generation));
                              r.host ? s.bind(std::string_view(*r.host)) : s.bind_null();
                              s.bind(r.rank).bind(r.step).bind(std::string_view(r.detail));
                            });
          },
          [&](const IncidentRow& r) {
            return prepared(run_, "INSERT OR REPLACE INTO incidents VALUES (?, ?)",
                            [&](SqliteStatement& s) {
                              s.bind(as_signed(r.id)).bind(std::string_view(r.json));
                            });
          },
          [&](const StatusRow& r) {
            return prepared(
                run_, "INSERT OR REPLACE INTO status VALUES (1, ?, ?)",
                [&](SqliteStatement& s) { s.bind(r.time).bind(std::string_view(r.json)); });
          },
          [&](const CheckpointRow& r) {
            return prepared(run_, "INSERT OR REPLACE INTO checkpoints VALUES (?, ?)",
                            [&](SqliteStatement& s) { s.bind(as_signed(r.step)).bind(r.time); });
          },
          [&](const EndRow& r) {
            return prepared(run_, "INSERT OR REPLACE INTO ended VALUES (1, ?, ?, ?)",
                            [&](SqliteStatement& s) {
                              s.bind(std::int64_t{r.code});
                              s.bind(std::string_view(r.sentence)).bind(r.time);
                            });
          },
          [&](const MetricRow& r) { return write_metrics(metrics_, r); },
          [&](const OutputRow& r) { return write_output(directory_, r.generation, r.pieces); }},
      row);
}

}  // namespace dlaunch::launcher::controller
