// Plays every row of docs/verdicts.md against the real job machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/supervisor/job/conversation.h"

namespace dlaunch::supervisor::job {
namespace {

struct Case {
  int line = 0;
  std::string name, job, evidence, then, cause, who, verdict, ends, sentence;
};

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" `");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" `") - first + 1);
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(trimmed(part));
  return parts;
}

std::vector<Case> read_cases() {
  std::ifstream file(VERDICT_TABLE);
  std::vector<Case> cases;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!line.starts_with("| ") || line.starts_with("| case ")) continue;
    auto cells = split(line.substr(1), '|');
    if (cells.size() != 9) {
      throw std::runtime_error("docs/verdicts.md:" + std::to_string(number) + ": 9 cells, not " +
                               std::to_string(cells.size()));
    }
    cases.push_back({number, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6],
                     cells[7], cells[8]});
  }
  return cases;
}

/// What the table says of an incident, as the last line about it tells.
struct Told {
  std::string cause = "none", who = "none", verdict = "none", sentence = "none";
};

/// "incident 1 open g1 CAUSE HOST rank R [VERDICT] numbers…: SENTENCE | last line"
Told told_by(const std::string& line) {
  Told told;
  std::istringstream words(line.substr(0, line.find('[')));
  std::string word;
  for (int i = 0; i < 4; ++i) words >> word;
  words >> told.cause;
  if (words >> word) told.who = word;
  if (words >> word >> word) told.who += " " + word;
  const auto open = line.find('['), close = line.find(']');
  if (close > open + 1) told.verdict = line.substr(open + 1, close - open - 1);
  told.sentence = line.substr(line.find(": ", close) + 2);
  told.sentence = told.sentence.substr(0, told.sentence.find(" | "));
  return told;
}

class Play {
 public:
  explicit Play(const Case& row) : row_(row) {
    say("job hosts=a:1,b:1,s:1 " + row.job);
    const bool from_the_start =
        row.evidence.starts_with("quorum") || row.evidence.starts_with("impossible");
    if (!from_the_start) {
      for (const auto* line : {"quorum", "formed 1 a b", "run", "progress 5"}) say(line);
    }
    for (const auto& verb : split(row.evidence, ';')) {
      if (verb.starts_with("recover ")) {
        recover("a b", verb.substr(verb.find(' ') + 1));
      } else {
        say(verb);
      }
    }
    recover(row.then, "99");
  }

  [[nodiscard]] const Told& told() const { return told_; }
  [[nodiscard]] std::string ends() const {
    return end_.empty() ? waits_ ? "waits" : "goes on" : end_;
  }
  [[nodiscard]] const std::string& transcript() const { return transcript_; }

 private:
  void say(const std::string& line) {
    transcript_ += line + "\n";
    if (line.starts_with("formed ")) {
      ++generation_;
      asked_ = false;
    }
    for (const auto& answer : conversation_.perform(line)) {
      transcript_ += "  " + answer + "\n";
      if (answer.starts_with("incident ")) told_ = told_by(answer);
      if (answer.starts_with("form:") || answer.starts_with("form ")) asked_ = true;
      if (answer.starts_with("state ")) waits_ = answer.starts_with("state waiting");
      if (answer.starts_with("state recovering") || answer.starts_with("state starting")) {
        underway_ = true;
      }
      if (answer.starts_with("state running")) underway_ = false;
      if (answer.starts_with("finish ")) end_ = "exit " + split(answer, ' ').at(1);
    }
  }

  /// Everybody answers the abort; then the coordinator gives what it has.
  void recover(const std::string& then, const std::string& step) {
    if (!end_.empty()) return;
    say("wait 300ms");
    if (underway_ && !asked_) say("leave");
    if (!end_.empty() || !asked_) return;
    if (then == "none") return say("cannot_form \"too few\"");
    auto words = split(then, ' ');
    std::string formed = "formed " + std::to_string(generation_ + 1);
    if (words.size() == 4) {  // "a s for b"
      formed += " " + words[0] + " " + words[1] + " replaced=" + words[3] + ">" + words[1];
    } else {
      for (const auto& word : words) formed += " " + word;
    }
    say(formed);
    say("run");
    say("progress " + step);
  }

  const Case& row_;
  Conversation conversation_;
  Told told_;
  std::string end_, transcript_;
  int generation_ = 0;
  bool asked_ = false, waits_ = false, underway_ = false;
};

class VerdictTable : public ::testing::TestWithParam<Case> {};

TEST_P(VerdictTable, SaysWhatTheMachineDoes) {
  const auto& row = GetParam();
  const Play play(row);
  const auto& told = play.told();
  const auto where = "docs/verdicts.md:" + std::to_string(row.line) + ", " + row.name;
  EXPECT_EQ(told.cause, row.cause) << where;
  EXPECT_EQ(told.who, row.who) << where;
  EXPECT_EQ(told.verdict, row.verdict) << where;
  EXPECT_EQ(told.sentence, row.sentence) << where;
  EXPECT_EQ(play.ends(), row.ends) << where;
  if (HasFailure()) ADD_FAILURE() << play.transcript();
}

TEST(VerdictTable, HoldsSixtyCasesAtLeastAndNoneTwice) {
  const auto cases = read_cases();
  EXPECT_GE(cases.size(), 60U);
  std::set<std::string> names;
  for (const auto& row : cases) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

std::string test_name(const ::testing::TestParamInfo<Case>& info) {
  std::string name = "line_" + std::to_string(info.param.line) + "_" + info.param.name;
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, VerdictTable, ::testing::ValuesIn(read_cases()), test_name);

}  // namespace
}  // namespace dlaunch::supervisor::job
