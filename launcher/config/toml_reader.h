// Reads keys out of TOML tables, collecting every problem with its place.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "launcher/config/problem.h"

namespace dlaunch::launcher::config {

/// The problems of one file.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}
  void add(const toml::source_region& where, std::string what, std::string expected = "");
  void add(std::string what, std::string expected = "") {
    add({}, std::move(what), std::move(expected));
  }
  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] std::vector<Problem> take() { return std::move(list_); }

 private:
  std::string file_;
  std::vector<Problem> list_;
};

/// One table. Each key is asked for once; `finish` reports those that nobody asked for. A getter
/// returns nothing when the key is missing or wrong; what is wrong is a problem already.
class TableReader {
 public:
  /// `path` is "trainer.model": for sentences. A null table has no keys.
  TableReader(const toml::table* table, std::string path, Problems& problems)
      : table_(table), path_(std::move(path)), problems_(problems) {}

  [[nodiscard]] const toml::node* find(std::string_view key);
  void read(std::string_view key, std::string& into);
  void read(std::string_view key, bool& into);
  void read(std::string_view key, nanoseconds& into);
  void read(std::string_view key, std::optional<nanoseconds>& into);  ///< "auto": nullopt
  void read(std::string_view key, double& into, double low, double high);
  void read(std::string_view key, std::vector<std::string>& into);
  template <class Number>
  void read(std::string_view key, Number& into, std::uint64_t low,
            std::uint64_t high = std::numeric_limits<Number>::max()) {
    if (const auto number = whole(key, low, high)) into = static_cast<Number>(*number);
  }
  /// The sub-table of this name; null when it is missing or no table.
  [[nodiscard]] const toml::table* table(std::string_view key);
  /// A key of a part that does not exist yet: an error when it is there with another value than
  /// `accepted`.
  void refuse(std::string_view key, std::string_view accepted = "");
  void one_of(std::string_view key, std::string& into, const std::vector<std::string>& allowed,
              const std::vector<std::string>& later = {});
  void wrong(const toml::node& node, std::string_view key, std::string what, std::string expected);
  void finish();
  [[nodiscard]] bool is_there() const { return table_ != nullptr; }

 private:
  [[nodiscard]] std::optional<std::uint64_t> whole(std::string_view key, std::uint64_t low,
                                                   std::uint64_t high);
  [[nodiscard]] std::string full(std::string_view key) const;

  const toml::table* table_;
  std::string path_;
  Problems& problems_;
  std::vector<std::string> known_;
};

/// "0.9" for sentences.
[[nodiscard]] std::string toml_number(double value);

/// Control characters, NUL and a wrong encoding are problems before TOML is looked at; a byte order
/// mark is passed over. nullopt: problems say why.
[[nodiscard]] std::optional<toml::table> parse_toml(std::string_view text, const std::string& file,
                                                    Problems& problems);

}  // namespace dlaunch::launcher::config
