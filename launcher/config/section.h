// Reads TOML tables key by key and keeps what is wrong with them, each with its place.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "launcher/config/problem.h"

namespace dlaunch::launcher::config {

/// Durations cross the wire as 32-bit milliseconds.
constexpr nanoseconds kDurationMax = 30 * 24h;
/// More say no more; the rest is counted.
constexpr std::size_t kProblemsMax = 100;

/// For what is missing in a file.
inline const toml::source_region kFileBegin{{1, 1}, {1, 1}, nullptr};

/// What was found wrong in one file, and which keys were asked for.
class Reading {
 public:
  explicit Reading(std::string file) : file_(std::move(file)) {}

  void add(const toml::source_region& place, std::string what, std::string expected = {});
  /// Without a place: the file as a whole.
  void add(std::string what, std::string expected = {});
  [[nodiscard]] bool empty() const { return problems_.empty(); }
  /// At most kProblemsMax and one that counts the others.
  [[nodiscard]] std::vector<Problem> take();

  /// "[job] name" of every key that was asked for.
  std::set<std::string> known;

 private:
  std::string file_;
  std::vector<Problem> problems_;
  std::size_t left_off_ = 0;
};

/// The document, or nullopt after adding why not: too large, not UTF-8, not TOML, nested too deep.
[[nodiscard]] std::optional<toml::table> parse_document(std::string_view text,
                                                        std::size_t bytes_max,
                                                        const std::string& file, Reading& reading);

/// One table. Every read leaves its target alone when the key is missing or wrong.
class Section {
 public:
  /// `name` as users write it: "job", "trainer.model". `table` may be null: then nothing is given.
  Section(Reading& reading, std::string name, const toml::table* table);

  /// True when the table is in the file.
  [[nodiscard]] bool given() const { return table_ != nullptr; }
  [[nodiscard]] bool has(std::string_view key) const;
  /// The value; null: not given. The key counts as known from now on.
  const toml::node* find(std::string_view key);
  /// A problem at this key's value, else at the table.
  void wrong(std::string_view key, std::string what, std::string expected = {});

  void text(std::string_view key, std::string& into);
  void flag(std::string_view key, bool& into);
  template <class Whole>
  void whole(std::string_view key, Whole& into, std::int64_t min, std::int64_t max) {
    if (const auto value = whole_number(key, min, max)) into = static_cast<Whole>(*value);
  }
  /// In [min, max]; `expected` says so in words.
  void real(std::string_view key, double& into, double min, double max,
            const std::string& expected);
  void duration(std::string_view key, nanoseconds& into, nanoseconds min = 1ms);
  /// "auto" leaves it empty.
  void duration_or_auto(std::string_view key, std::optional<nanoseconds>& into,
                        nanoseconds min = 1ms);
  /// One of `values`; one of `later` is "not available yet".
  void choice(std::string_view key, std::string& into, const std::vector<std::string>& values,
              const std::vector<std::string>& later = {});
  void texts(std::string_view key, std::vector<std::string>& into);
  void text_table(std::string_view key, std::map<std::string, std::string>& into);
  /// The table below this key.
  [[nodiscard]] Section section(std::string_view key);
  /// Named in the manual, built later: refused when given.
  void later(std::string_view key);
  /// Adds a problem for each key that was not asked for.
  void finish();

 private:
  [[nodiscard]] std::string label(std::string_view key) const;
  std::optional<std::int64_t> whole_number(std::string_view key, std::int64_t min,
                                           std::int64_t max);
  std::optional<nanoseconds> checked_duration(std::string_view key, const toml::node& node,
                                              nanoseconds min, const std::string& expected);
  void wrong_type(std::string_view key, const toml::node& node, std::string expected);

  Reading& reading_;
  std::string name_;
  const toml::table* table_;
  std::vector<std::string> asked_;
};

/// "a string", "a whole number", …
[[nodiscard]] std::string kind_of(const toml::node& node);

}  // namespace dlaunch::launcher::config
