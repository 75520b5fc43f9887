#include "launcher/controller/io/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>

#include "base/check.h"
#include "base/io/file_descriptor.h"

namespace dlaunch::launcher::controller {
namespace {

// A reader holds its lock for one short query. On a network file system the writer never lets go:
// a reader gives up soon, for it can ask the controller.
constexpr int kWriterBusyMilliseconds = 5000;
constexpr int kReaderBusyMilliseconds = 500;

std::error_code code_of(int result, int system_error) {
  switch (result & 0xff) {
    case SQLITE_FULL:
      return std::make_error_code(std::errc::no_space_on_device);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return std::make_error_code(std::errc::device_or_resource_busy);
    case SQLITE_CANTOPEN:
      return std::make_error_code(std::errc::no_such_file_or_directory);
    case SQLITE_READONLY:
      return std::make_error_code(std::errc::read_only_file_system);
    default:
      return system_error != 0 ? std::error_code(system_error, std::generic_category())
                               : std::make_error_code(std::errc::io_error);
  }
}

tl::unexpected<Error> sqlite_failure(sqlite3* database, const std::string& doing) {
  const int result = sqlite3_extended_errcode(database);
  return failure(code_of(result, sqlite3_system_errno(database)),
                 doing + " (" + sqlite3_errmsg(database) + ")");
}

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}
void Sqlite::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

SqliteStatement& SqliteStatement::bind(std::int64_t value) {
  const int result = sqlite3_bind_int64(statement_.get(), ++bound_, value);
  DL_CHECK(result == SQLITE_OK, "a statement has as many parameters as are bound");
  return *this;
}
SqliteStatement& SqliteStatement::bind(double value) {
  const int result = sqlite3_bind_double(statement_.get(), ++bound_, value);
  DL_CHECK(result == SQLITE_OK, "a statement has as many parameters as are bound");
  return *this;
}
SqliteStatement& SqliteStatement::bind(std::string_view value) {
  const int result = sqlite3_bind_text(statement_.get(), ++bound_, value.data(),
                                       static_cast<int>(value.size()), SQLITE_TRANSIENT);
  DL_CHECK(result == SQLITE_OK, "a statement has as many parameters as are bound");
  return *this;
}
SqliteStatement& SqliteStatement::bind_null() {
  const int result = sqlite3_bind_null(statement_.get(), ++bound_);
  DL_CHECK(result == SQLITE_OK, "a statement has as many parameters as are bound");
  return *this;
}

Result<bool> SqliteStatement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  return sqlite_failure(sqlite3_db_handle(statement_.get()), "using " + path_);
}

std::int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}
double SqliteStatement::real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}
std::string SqliteStatement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  const auto bytes = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return text == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(text), bytes);
}
bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Result<Sqlite> Sqlite::open(const std::string& path, Mode mode) {
  if (mode == Mode::write) {
    // SQLite would make it with the umask's mode; its companion files take the mode of this one.
    const FileDescriptor made(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    if (!made.is_open()) return failure_from_errno(errno, "making " + path);
  }
  sqlite3* database = nullptr;
  const int flags =
      (mode == Mode::write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  Sqlite opened(database, path);
  DL_CHECK(database != nullptr, "there is memory for a connection of SQLite");
  if (result != SQLITE_OK) return sqlite_failure(database, "opening " + path);
  sqlite3_busy_timeout(database,
                       mode == Mode::write ? kWriterBusyMilliseconds : kReaderBusyMilliseconds);
  return opened;
}

Result<void> Sqlite::execute(const std::string& sql) {
  if (sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    return sqlite_failure(database_.get(), "using " + path_);
  }
  return {};
}

Result<SqliteStatement> Sqlite::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(database_.get(), sql.c_str(), static_cast<int>(sql.size()),
                                        &statement, nullptr);
  if (result != SQLITE_OK) return sqlite_failure(database_.get(), "using " + path_);
  return SqliteStatement(statement, path_);
}

}  // namespace dlaunch::launcher::controller
