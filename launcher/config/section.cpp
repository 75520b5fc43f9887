#include "launcher/config/section.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"

namespace dlaunch::launcher::config {
namespace {

// Our own keys have three parts at most. A million would overflow the stack of the parser.
constexpr int kKeyPartsMax = 16;
constexpr std::size_t kSuggestedKeysMax = 12;

bool is_text(const toml::node& node) { return node.type() == toml::node_type::string; }

std::string text_of(const toml::node& node) { return node.as_string()->get(); }

/// Steps over a string that begins at `at`; the place behind it.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool multiline = text.substr(at, 3) == three;
  at += multiline ? 3 : 1;
  while (at < text.size()) {
    if (text[at] == '\\' && quote == '"') {
      at += 2;
    } else if (multiline ? text.substr(at, 3) == three : text[at] == quote) {
      return at + (multiline ? 3 : 1);
    } else if (!multiline && text[at] == '\n') {
      return at;
    } else {
      ++at;
    }
  }
  return text.size();
}

bool continues_key(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == ' ' || c == '\t';
}

/// The line (from 1) of a key of more than kKeyPartsMax parts; nullopt: there is none.
std::optional<std::uint32_t> too_deep(std::string_view text) {
  std::uint32_t line = 1;
  int dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const auto end = behind_string(text, at);
      line += static_cast<std::uint32_t>(
          std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                     text.begin() + static_cast<std::ptrdiff_t>(std::min(end, text.size())), '\n'));
      at = end;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.' && ++dots >= kKeyPartsMax) return line;
    if (c != '.' && !continues_key(c)) dots = 0;
    if (c == '\n') ++line;
    ++at;
  }
  return std::nullopt;
}

std::string listed(const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += i + 1 == values.size() ? " or " : ", ";
    text += "\"" + values[i] + "\"";
  }
  return text;
}

}  // namespace

void Reading::add(const toml::source_region& place, std::string what, std::string expected) {
  if (problems_.size() >= kProblemsMax) {
    ++left_off_;
    return;
  }
  Problem problem{file_, place.begin.line, place.begin.column, std::move(what),
                  std::move(expected)};
  // An override of the command line is its own one-line document.
  if (place.path && *place.path != file_) {
    problem.file = *place.path;
    problem.line = problem.column = 0;
  }
  problems_.push_back(std::move(problem));
}

void Reading::add(std::string what, std::string expected) {
  add(toml::source_region{}, std::move(what), std::move(expected));
}

std::vector<Problem> Reading::take() {
  auto problems = std::exchange(problems_, {});
  if (left_off_ > 0) {
    problems.push_back(
        {file_, kAfterAllLines, 1, std::to_string(left_off_) + " more problems", {}});
    problems.back().line = problems.front().line == 0 ? 0 : problems.back().line;
  }
  return problems;
}

std::optional<toml::table> parse_document(std::string_view text, std::size_t bytes_max,
                                          const std::string& file, Reading& reading) {
  if (text.size() > bytes_max) {
    reading.add("the file has " + std::to_string(text.size()) + " bytes",
                "expected at most " + std::to_string(bytes_max) + "; is it the right file?");
    return std::nullopt;
  }
  if (const auto line = too_deep(text)) {
    toml::source_region place;
    place.begin = {*line, 1};
    reading.add(place, "a key of more than " + std::to_string(kKeyPartsMax) + " parts",
                "expected keys like `trainer.model.layers`");
    return std::nullopt;
  }
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    reading.add(error.source(), "not TOML: " + std::string(error.description()));
    return std::nullopt;
  }
}

std::string kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

Section::Section(Reading& reading, std::string name, const toml::table* table)
    : reading_(reading), name_(std::move(name)), table_(table) {}

bool Section::has(std::string_view key) const { return table_ != nullptr && table_->contains(key); }

std::string Section::label(std::string_view key) const {
  return name_.empty() ? "`" + std::string(key) + "`"
                       : "`" + std::string(key) + "` in [" + name_ + "]";
}

const toml::node* Section::find(std::string_view key) {
  asked_.emplace_back(key);
  reading_.known.insert((name_.empty() ? "" : "[" + name_ + "] ") + std::string(key));
  return table_ == nullptr ? nullptr : table_->get(key);
}

void Section::wrong(std::string_view key, std::string what, std::string expected) {
  const auto* node = table_ == nullptr ? nullptr : table_->get(key);
  if (node == nullptr) node = table_;
  reading_.add(node == nullptr ? toml::source_region{} : node->source(), std::move(what),
               std::move(expected));
}

void Section::wrong_type(std::string_view key, const toml::node& node, std::string expected) {
  wrong(key, label(key) + " is " + kind_of(node), "expected " + std::move(expected));
}

void Section::text(std::string_view key, std::string& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!is_text(*node)) return wrong_type(key, *node, "a string in quotes");
  auto value = text_of(*node);
  if (value.find('\0') != std::string::npos) {
    return wrong(key, label(key) + " holds a NUL character", "expected text without it");
  }
  into = std::move(value);
}

void Section::flag(std::string_view key, bool& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (const auto* value = node->as_boolean()) {
    into = value->get();
  } else {
    wrong_type(key, *node, "true or false, without quotes");
  }
}

std::optional<std::int64_t> Section::whole_number(std::string_view key, std::int64_t min,
                                                  std::int64_t max) {
  const auto* node = find(key);
  if (node == nullptr) return std::nullopt;
  const auto range = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  const auto* value = node->as_integer();
  if (value == nullptr) {
    wrong_type(key, *node, range);
    return std::nullopt;
  }
  if (value->get() < min || value->get() > max) {
    wrong(key, label(key) + " is " + std::to_string(value->get()), "expected " + range);
    return std::nullopt;
  }
  return value->get();
}

void Section::real(std::string_view key, double& into, double min, double max,
                   const std::string& expected) {
  const auto* node = find(key);
  if (node == nullptr) return;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value) return wrong_type(key, *node, expected);
  if (!std::isfinite(*value) || *value < min || *value > max) {
    return wrong(key, label(key) + " is out of range", "expected " + expected);
  }
  into = *value;
}

std::optional<nanoseconds> Section::checked_duration(std::string_view key, const toml::node& node,
                                                     nanoseconds min, const std::string& expected) {
  if (!is_text(node)) {
    wrong_type(key, node, expected);
    return std::nullopt;
  }
  const auto value = parse_duration(text_of(node));
  if (!value) {
    wrong(key, label(key) + " is \"" + text_of(node) + "\"", "expected " + expected);
    return std::nullopt;
  }
  if (*value < min || *value > kDurationMax) {
    wrong(key, label(key) + " is \"" + text_of(node) + "\"",
          "expected " + format_duration(min) + " to " + format_duration(kDurationMax));
    return std::nullopt;
  }
  return value;
}

void Section::duration(std::string_view key, nanoseconds& into, nanoseconds min) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (const auto value =
          checked_duration(key, *node, min, "a duration with a unit, like \"30 s\"")) {
    into = *value;
  }
}

void Section::duration_or_auto(std::string_view key, std::optional<nanoseconds>& into,
                               nanoseconds min) {
  const auto* node = find(key);
  if (node == nullptr || (is_text(*node) && text_of(*node) == "auto")) return;
  if (const auto value =
          checked_duration(key, *node, min, "\"auto\" or a duration with a unit, like \"30 s\"")) {
    into = *value;
  }
}

void Section::choice(std::string_view key, std::string& into,
                     const std::vector<std::string>& values,
                     const std::vector<std::string>& later) {
  const auto* node = find(key);
  if (node == nullptr) return;
  if (!is_text(*node)) return wrong_type(key, *node, listed(values));
  const auto value = text_of(*node);
  if (std::find(values.begin(), values.end(), value) != values.end()) {
    into = value;
  } else if (std::find(later.begin(), later.end(), value) != later.end()) {
    wrong(key, label(key) + " = \"" + value + "\" is not available yet",
          "expected " + listed(values));
  } else {
    wrong(key, label(key) + " is \"" + value + "\"", "expected " + listed(values));
  }
}

void Section::texts(std::string_view key, std::vector<std::string>& into) {
  const auto* node = find(key);
  if (node == nullptr) return;
  const std::string expected = "an array of strings, like [\"a\", \"b\"]";
  const auto* array = node->as_array();
  if (array == nullptr) return wrong_type(key, *node, expected);
  std::vector<std::string> values;
  for (const auto& element : *array) {
    if (!is_text(element)) {
      reading_.add(element.source(), label(key) + " holds " + kind_of(element),
                   "expected " + expected);
    } else if (text_of(element).find('\0') != std::string::npos) {
      reading_.add(element.source(), label(key) + " holds a NUL character",
                   "expected text without it");
    } else {
      values.push_back(text_of(element));
    }
  }
  if (values.size() == array->size()) into = std::move(values);
}

void Section::text_table(std::string_view key, std::map<std::string, std::string>& into) {
  auto table = section(key);
  if (!table.given()) return;
  for (auto&& [name, node] : *table.table_) table.text(name.str(), into[std::string(name.str())]);
}

Section Section::section(std::string_view key) {
  const auto* node = find(key);
  const auto* table = node == nullptr ? nullptr : node->as_table();
  auto name = (name_.empty() ? "" : name_ + ".") + std::string(key);
  if (node != nullptr && table == nullptr) wrong_type(key, *node, "a table [" + name + "]");
  return {reading_, std::move(name), table};
}

void Section::later(std::string_view key) {
  if (find(key) != nullptr) wrong(key, label(key) + " is not available yet", "leave it out");
}

void Section::finish() {
  if (table_ == nullptr) return;
  for (auto&& [key, node] : *table_) {
    const std::string word(key.str());
    if (std::find(asked_.begin(), asked_.end(), word) != asked_.end()) continue;
    const bool header = node.is_table() || node.is_array_of_tables();
    const auto near = nearest(word, asked_);
    std::string expected = near.empty() ? "" : "did you mean `" + near + "`?";
    if (near.empty() && asked_.size() <= kSuggestedKeysMax) {
      expected = "known here: ";
      for (const auto& known : asked_) expected += (known == asked_[0] ? "`" : ", `") + known + "`";
    }
    const auto what =
        name_.empty() && header ? "unknown section [" + word + "]" : "unknown key " + label(word);
    reading_.add(key.source(), what, std::move(expected));
  }
}

}  // namespace dlaunch::launcher::config
