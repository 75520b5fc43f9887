#include "launcher/config/problem.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace dlaunch::launcher::config {
namespace {

/// Levenshtein's edit distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

/// What a file holds must not move the cursor of who reads about it.
std::string printable(std::string text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 0x7F) {
      result += c;
    } else {
      constexpr const char* kDigits = "0123456789abcdef";
      result += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return result;
}

}  // namespace

std::string to_text(const Problem& problem) {
  auto text = problem.file;
  if (problem.line > 0 && problem.line != kAfterAllLines) {
    text += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
  }
  text += ": " + problem.what;
  return printable(problem.expected.empty() ? text : text + "; " + problem.expected);
}

std::string to_text(std::vector<Problem> problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.file, a.line, a.column) < std::tie(b.file, b.line, b.column);
  });
  std::string text;
  for (const auto& problem : problems) text += to_text(problem) + "\n";
  return text;
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 2;
  for (const auto& candidate : known) {
    const auto far = distance(word, candidate);
    if (far < best_distance) {
      best_distance = far;
      best = candidate;
    }
  }
  return best;
}

}  // namespace dlaunch::launcher::config
