// SQLite with owners: a connection and its statements close themselves, errors come as values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace dlaunch::launcher::controller {

class Sqlite;

/// One prepared statement; used on one thread while its connection lives.
class SqliteStatement {
 public:
  SqliteStatement(SqliteStatement&&) noexcept = default;

  /// Parameters count from 1 in the order of these calls.
  SqliteStatement& bind(std::int64_t value);
  SqliteStatement& bind(double value);
  SqliteStatement& bind(std::string_view value);
  SqliteStatement& bind_null();
  template <class Value>
  SqliteStatement& bind(const std::optional<Value>& value) {
    return value ? bind(*value) : bind_null();
  }
  /// True: a row is there; false: done.
  [[nodiscard]] Result<bool> step();
  /// `take` once for each row that is left.
  template <class Take>
  [[nodiscard]] Result<void> for_each_row(Take take) {
    while (true) {
      const auto row = step();
      if (!row) return tl::unexpected(row.error());
      if (!*row) return {};
      take();
    }
  }
  /// Columns count from 0.
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] bool is_null(int column) const;

 private:
  friend class Sqlite;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(sqlite3_stmt* statement, std::string path)
      : statement_(statement), path_(std::move(path)) {}
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
  int bound_ = 0;
};

/// A connection; used on one thread at a time.
class Sqlite {
 public:
  enum class Mode { read, write };

  /// `write` makes the file (0600) where it is missing.
  [[nodiscard]] static Result<Sqlite> open(const std::string& path, Mode mode);

  [[nodiscard]] Result<void> execute(const std::string& sql);
  [[nodiscard]] Result<SqliteStatement> prepare(const std::string& sql);

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  Sqlite(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}
  std::unique_ptr<sqlite3, Close> database_;
  std::string path_;
};

}  // namespace dlaunch::launcher::controller
