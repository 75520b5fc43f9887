// Files that nobody writes on purpose, or that somebody does: each gives problems, in bounded time.
#include <gmock/gmock.h>

#include "launcher/config/section.h"
#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST(OddInputs, AreRefusedWithASentence) {
  const std::string deep_key = repeated("a.", 100'000) + "a = 1\n";
  const std::string quoted_key = repeated("\"a\" . ", 100'000) + "\"a\" = 1\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string(kTrainBytesMax + 1, '#'), "the file has 1048577 bytes; expected at most"},
      {repeated("x = [", 100'000), "not TOML"},
      {"x = " + repeated("[", 100'000), "not TOML"},
      {"x = " + repeated("{ a = ", 100'000), "not TOML"},
      {"#\n" + deep_key, "train.toml:2:1: a key of more than 16 parts"},
      {quoted_key, "a key of more than 16 parts"},
      {"[" + repeated("a.", 100'000) + "a]\n", "a key of more than 16 parts"},
      {std::string("[job]\nname = \"a\0b\"\n", 18), "not TOML"},
      {std::string("\0\0\0\0", 4), "not TOML"},
      {"\x7F"
       "ELF\x02\x01",
       "not TOML"},
      {"[job]\nname = \"\xFF\xFE\"\n", "not TOML"},
      {"[job]\nname = \"\xC0\xAF\"\n", "not TOML"},
      {"[job]\nname = \"\xED\xA0\x80\"\n", "not TOML"},
      {"[job]\nname = 'unfinished\n", "not TOML"},
      {"[job]\nname = \"\"\"unfinished\n\n", "not TOML"},
      {"[job]\nname = \"bad \\q escape\"\n", "not TOML"},
      {"[job]\n[job]\n", "not TOML"},
      {"[trainer]\nsteps = 99999999999999999999\n", "not TOML"},
      {"[trainer]\nsteps = 2026-11-30\n", "is a date or time"},
      {"{\"job\": {}}\n", "not TOML"},
      {"job: {name: x}\n", "not TOML"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(problems_of(parse_train_text(text)), HasSubstr(why)) << text.substr(0, 60);
    EXPECT_NE(problems_of(parse_hosts_toml(text, "hosts.toml")), "") << text.substr(0, 60);
    EXPECT_NE(problems_of(parse_host_lines(text, "hosts")), "") << text.substr(0, 60);
  }
}

TEST(OddInputs, DotsInTextsAndCommentsAreNoDeepKeys) {
  const auto dots = repeated("a.", 50);
  EXPECT_EQ(problems_of(parse_train_text("# " + dots + "\n" + kProgram + "wrap = [\"" + dots +
                                         "\", '" + dots + "']\nenvironment = { A = \"\"\"" + dots +
                                         "\n" + dots + "\"\"\" }\n")),
            "");
}

TEST(OddInputs, LinesOfWindowsAndAByteOrderMarkAreFine) {
  EXPECT_EQ(problems_of(parse_train_text("\xEF\xBB\xBF[trainer.data]\r\ntext = \"a\"\r\n")), "");
  EXPECT_EQ(problems_of(parse_hosts("\xEF\xBB\xBF[[host]]\r\nname = \"a\"\r\n", "hosts.toml")), "");
}

TEST(OddInputs, ManyProblemsAreCounted) {
  std::string text = kTrainer;
  for (int i = 0; i < 1000; ++i) text += "zz" + std::to_string(i) + " = 1\n";
  const auto parsed = parse_train_text(text);
  EXPECT_EQ(std::get<std::vector<Problem>>(parsed).size(), kProblemsMax + 1);
  EXPECT_THAT(problems_of(parsed), EndsWith("\ntrain.toml: 900 more problems\n"));
}

TEST(OddInputs, RangesThatExplodeEndTheExpansion) {
  const auto text = repeated("[[host]]\nname = \"a[1-65536]\"\n", 20'000);
  EXPECT_THAT(problems_of(parse_hosts(text, "hosts.toml")), HasSubstr("more than 65536"));
  EXPECT_THAT(problems_of(parse_hosts(repeated("a[1-65536]\n", 20'000), "hosts")),
              HasSubstr("more than 65536"));
  const auto long_name = "[[host]]\nname = \"a[1-65536]" + std::string(1'000'000, 'b') + "\"\n";
  EXPECT_THAT(problems_of(parse_hosts(long_name, "hosts.toml")), HasSubstr("longer than 255"));
}

TEST(OddInputs, TooLargeHostsFilesAreRefused) {
  const std::string text(kConfigBytesMax + 1, '\n');
  EXPECT_THAT(problems_of(parse_hosts(text, "hosts.toml")), HasSubstr("expected at most"));
  EXPECT_THAT(problems_of(parse_hosts(text, "hosts")), HasSubstr("expected at most"));
}

TEST(OddInputs, EveryBeginningOfAFileEndsInProblemsOrAStruct) {
  const std::string whole =
      "[job]\nname = \"k\"\nhosts = \"2..4\"\n[trainer]\nbetas = [0.9, 0.95]\n"
      "[trainer.data]\ntext = '''a'''\n[recovery]\nrestarts = { process = 1, window = \"1 h\" }\n";
  const std::string hosts =
      "[defaults]\nuser = \"a\"\n[[host]]\nname = \"g[1-2]\"\nexpect = { gpus = 1 }\n";
  for (std::size_t i = 0; i <= whole.size(); ++i) {
    static_cast<void>(parse_train_text(whole.substr(0, i)));
  }
  for (std::size_t i = 0; i <= hosts.size(); ++i) {
    static_cast<void>(parse_hosts(hosts.substr(0, i), "hosts"));
  }
  EXPECT_EQ(problems_of(parse_train_text(whole)), "");
  EXPECT_EQ(problems_of(parse_hosts(hosts, "hosts")), "");
}

}  // namespace
}  // namespace dlaunch::launcher::config
