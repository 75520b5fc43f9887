// Runs each conversation of tests/scripts/job. A line without indent is a verb (conversation.h),
// indented lines are the answers. DLAUNCH_REWRITE_SCRIPTS=1 writes the answers that came.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/supervisor/job/conversation.h"

namespace dlaunch::supervisor::job {
namespace {

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(JOB_SCRIPTS)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The script as it would be written after running it.
std::string play(const std::string& script) {
  Conversation conversation;
  std::istringstream lines(script);
  std::string played;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.starts_with("  ")) continue;
    played += line + "\n";
    if (line.empty() || line.starts_with('#')) continue;
    try {
      for (const auto& answer : conversation.perform(line)) played += "  " + answer + "\n";
    } catch (const std::exception& error) {
      throw std::runtime_error("line " + std::to_string(number) + ", " + line + ": " +
                               error.what());
    }
  }
  return played;
}

/// What follows from each verb, as far as it is decided: neither what is only told or counted, nor
/// what is said again. `taken_over`: another controller takes over wherever the job runs.
std::string decisions(const std::string& script, bool taken_over) {
  Conversation conversation;
  std::istringstream lines(script);
  std::string decided;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with(' ') || line.starts_with('#')) continue;
    decided += line + "\n";
    for (const auto& answer : conversation.perform(line)) {
      const auto begins = [&](const char* words) { return answer.starts_with(words); };
      const auto has = [&](const char* words) { return answer.find(words) != std::string::npos; };
      const bool told =
          begins("journal") || begins("state") || has(" acknowledged") ||
          (begins("record") && !begins("record verdict") && !begins("record incident_opened"));
      // Whether all of a list of endpoints is said or what has changed is no decision.
      if (told || has(": assign")) continue;
      decided += "  " + answer + "\n";
    }
    if (taken_over) (void)conversation.take_over();
  }
  return decided;
}

class JobScript : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(JobScript, AnswersAsWritten) {
  const auto script = read(GetParam());
  const auto played = play(script);
  if (std::getenv("DLAUNCH_REWRITE_SCRIPTS") != nullptr && played != script) {
    std::ofstream(GetParam()) << played;
    return;
  }
  EXPECT_EQ(played, script);
}

TEST_P(JobScript, AControllerThatTakesOverDecidesAsOneThatLivesOn) {
  const auto script = read(GetParam());
  const auto has = [&](const char* verb) { return script.find(verb) != std::string::npos; };
  if (has("\nrestart") || has("\njournal off") || has("\njournal fails") || has("\nview")) return;
  EXPECT_EQ(decisions(script, true), decisions(script, false));
}

INSTANTIATE_TEST_SUITE_P(All, JobScript, ::testing::ValuesIn(scripts()),
                         [](const auto& script) { return script.param.stem().string(); });

}  // namespace
}  // namespace dlaunch::supervisor::job
