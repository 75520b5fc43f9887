// That the manual page has every command and option of the command line and no other.
#include <gmock/gmock.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "launcher/cli/options.h"

namespace dlaunch::launcher::cli {
namespace {

std::string manual() {
  std::ifstream file(DLAUNCH_SOURCE_DIR "/docs/dlaunch.1");
  std::stringstream text;
  text << file.rdbuf();
  return std::regex_replace(text.str(), std::regex(R"(\\-)"), "-");
}

std::set<std::string> options_in(const std::string& text) {
  const std::regex option("--[a-z][a-z-]*");
  return {std::sregex_token_iterator(text.begin(), text.end(), option), {}};
}

std::string help_of(const std::string& command) {
  const auto options = parse_options({command, "-h"});
  const auto* said = std::get_if<Said>(&options);
  EXPECT_NE(said, nullptr) << command;
  return said == nullptr ? "" : said->text;
}

TEST(Manual, TheSynopsisHasEachCommandWithItsOptionsAndNoOther) {
  const auto text = manual();
  const auto begin = text.find(".SH SYNOPSIS");
  const auto synopsis = text.substr(begin, text.find(".SH DESCRIPTION") - begin);
  for (const char* command :
       {"run", "list", "attach", "resume", "status", "logs", "events", "report", "stop"}) {
    const auto at = synopsis.find(std::string("\n.B dlaunch ") + command);
    ASSERT_NE(at, std::string::npos) << command;
    const auto part = synopsis.substr(at, synopsis.find("\n.br", at) - at);
    auto in_help = options_in(help_of(command));
    in_help.erase("--help");
    EXPECT_EQ(options_in(part), in_help) << command;
  }
}

TEST(Manual, TheTextKnowsNoOptionThatTheSynopsisHasNot) {
  const auto text = manual();
  EXPECT_EQ(options_in(text), options_in(text.substr(0, text.find(".SH DESCRIPTION"))));
}

TEST(Manual, ItHasTheExitCodesOfTheirDocument) {
  std::ifstream file(DLAUNCH_SOURCE_DIR "/docs/exit_codes.md");
  const auto text = manual();
  int codes = 0;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, std::regex(R"(^\| (\d+) \|)"))) continue;
    EXPECT_NE(text.find("\n.B " + match[1].str() + "\n"), std::string::npos) << match[1];
    ++codes;
  }
  EXPECT_GE(codes, 9);
}

}  // namespace
}  // namespace dlaunch::launcher::cli
