#include "launcher/config/toml_reader.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "launcher/config/hosts_file.h"

namespace dlaunch::launcher::config {

void Problems::add(const toml::source_region& where, std::string what, std::string expected) {
  constexpr std::size_t kProblemsMax = 200;  // a file that is something else altogether
  if (list_.size() >= kProblemsMax) return;
  list_.push_back(
      {file_, where.begin.line, where.begin.column, std::move(what), std::move(expected)});
}

std::string TableReader::full(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

const toml::node* TableReader::find(std::string_view key) {
  known_.emplace_back(key);
  return table_ == nullptr ? nullptr : table_->get(key);
}

void TableReader::wrong(const toml::node& node, std::string_view key, std::string what,
                        std::string expected) {
  problems_.add(node.source(), "`" + full(key) + "` " + std::move(what), std::move(expected));
}

void TableReader::read(std::string_view key, std::string& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (const auto text = node->value_exact<std::string>()) {
    into = *text;
  } else {
    wrong(*node, key, "is no text", "expected a string in quotes");
  }
}

void TableReader::read(std::string_view key, bool& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (const auto value = node->value_exact<bool>()) {
    into = *value;
  } else {
    wrong(*node, key, "is neither true nor false", "expected true or false");
  }
}

void TableReader::read(std::string_view key, nanoseconds& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  const auto text = node->value_exact<std::string>();
  const auto duration = text ? parse_duration(*text) : std::nullopt;
  if (duration) {
    into = *duration;
  } else {
    wrong(*node, key, "is no duration",
          "expected a number with a unit, like \"30 s\" or \"10 min\"");
  }
}

void TableReader::read(std::string_view key, std::optional<nanoseconds>& into) {
  const auto* node = table_ == nullptr ? nullptr : table_->get(key);
  if (node != nullptr && node->value_exact<std::string>() == "auto") {
    known_.emplace_back(key);
    into.reset();
    return;
  }
  nanoseconds value = into.value_or(-1ns);
  read(key, value);
  if (value >= 0ns) into = value;
}

void TableReader::read(std::string_view key, double& into, double low, double high) {
  const auto* node = find(key);
  if (node == nullptr) return;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (value && std::isfinite(*value) && *value >= low && *value <= high) {
    into = *value;
  } else {
    wrong(*node, key, "is no number in its range",
          "expected a number from " + toml_number(low) + " to " + toml_number(high));
  }
}

std::optional<std::uint64_t> TableReader::whole(std::string_view key, std::uint64_t low,
                                                std::uint64_t high) {
  const auto* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto value = node->value_exact<std::int64_t>();
  const auto number =
      value && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
  if (number && *number >= low && *number <= high) return number;
  wrong(*node, key, "is no whole number in its range",
        "expected a whole number of at least " + std::to_string(low));
  return std::nullopt;
}

void TableReader::read(std::string_view key, std::vector<std::string>& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  const auto* array = node->as_array();
  std::vector<std::string> words;
  for (std::size_t i = 0; array != nullptr && i < array->size(); ++i) {
    if (const auto text = array->get(i)->value_exact<std::string>()) words.push_back(*text);
  }
  if (array == nullptr || words.size() != array->size()) {
    wrong(*node, key, "is no list of texts", "expected a list like [\"a\", \"b\"]");
  } else {
    into = std::move(words);
  }
}

const toml::table* TableReader::table(std::string_view key) {
  const auto* node = find(key);
  if (node == nullptr) return nullptr;
  if (const auto* table = node->as_table()) return table;
  wrong(*node, key, "is no table", "expected [" + full(key) + "]");
  return nullptr;
}

void TableReader::refuse(std::string_view key, std::string_view accepted) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!accepted.empty() && node->value<std::string>() == accepted) return;
  wrong(*node, key, "is not available yet", "");
}

void TableReader::one_of(std::string_view key, std::string& into,
                         const std::vector<std::string>& allowed,
                         const std::vector<std::string>& later) {
  const auto* node = find(key);
  if (node == nullptr) return;
  const auto text = node->value_exact<std::string>().value_or("");
  const auto has = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  if (has(allowed)) {
    into = text;
    return;
  }
  if (has(later)) return wrong(*node, key, "= \"" + text + "\" is not available yet", "");
  std::string expected;
  for (const auto& word : allowed) expected += (expected.empty() ? "\"" : ", \"") + word + "\"";
  wrong(*node, key, "has a value that is not known", "expected one of " + expected);
}

void TableReader::finish() {
  if (table_ == nullptr) return;
  for (const auto& [key, node] : *table_) {
    const std::string name(key.str());
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const auto near = nearest(name, known_);
    problems_.add(key.source(), "unknown key `" + full(name) + "`",
                  near.empty() ? "" : "did you mean `" + near + "`?");
  }
}

std::string toml_number(double value) {
  auto text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

std::optional<toml::table> parse_toml(std::string_view text, const std::string& file,
                                      Problems& problems) {
  if (text.size() > kConfigBytesMax) {
    problems.add("the file has more than 4 MiB; is it the right one?");
    return std::nullopt;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    problems.add(error.source(), std::string(error.description()));
    return std::nullopt;
  }
}

}  // namespace dlaunch::launcher::config
