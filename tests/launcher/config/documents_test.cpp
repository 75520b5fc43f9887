// That the manual has every key of the code and no other, that its defaults are the real ones, and
// that the files people start from can be read.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "launcher/config/hosts_toml.h"
#include "launcher/config/train_toml.h"
#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

using testing::HasSubstr;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

const std::filesystem::path kRoot = DLAUNCH_SOURCE_DIR;

/// The text between the first two backticks, if the text begins with one; else empty.
std::string in_backticks(const std::string& text) {
  if (!text.starts_with("`")) return "";
  return text.substr(1, text.find('`', 1) - 1);
}

/// "job.hosts_step" → "1" (empty: the default is described in words), out of the tables.
std::map<std::string, std::string> documented() {
  std::map<std::string, std::string> keys;
  std::istringstream text(read(kRoot / "docs/configuration.md"));
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("### [")) {
      const auto begin = line.find_first_not_of("#[ ");
      section = line.substr(begin, line.find(']') - begin);
    }
    if (!line.starts_with("| `")) continue;
    const auto first_end = line.find(" | ");
    const auto second_end = line.find(" | ", first_end + 3);
    const auto key = in_backticks(line.substr(2, first_end - 2));
    const auto cell = line.substr(first_end + 3, second_end - first_end - 3);
    const bool literal = cell.starts_with("`") && cell.find('`', 1) + 1 == cell.size();
    EXPECT_TRUE(keys.emplace(section + "." + key, literal ? in_backticks(cell) : "").second) << key;
  }
  return keys;
}

/// "[trainer.model] layers" → "trainer.model.layers"; names of tables are no keys.
std::set<std::string> known() {
  std::set<std::string> keys;
  for (const auto& set : {known_train_keys(), known_host_keys()}) {
    for (const auto& key : set) {
      const auto close = key.find("] ");
      if (close == std::string::npos || key.starts_with("[defaults")) continue;
      keys.insert(key.substr(1, close - 1) + "." + key.substr(close + 2));
    }
  }
  const auto all = keys;
  std::erase_if(keys, [&](const std::string& key) {
    const auto next = all.lower_bound(key + ".");
    return next != all.end() && next->starts_with(key + ".");
  });
  return keys;
}

TEST(Documents, TheManualHasEveryKeyAndNoOther) {
  const auto in_manual = documented();
  const auto in_code = known();
  EXPECT_GT(in_code.size(), 70U);
  for (const auto& key : in_code) {
    EXPECT_TRUE(in_manual.contains(key)) << key << " is not in docs/configuration.md";
  }
  for (const auto& [key, value] : in_manual) {
    EXPECT_TRUE(in_code.contains(key)) << key << " is in docs/configuration.md only";
  }
}

TEST(Documents, TheDefaultsOfTrainTomlAreTheRealOnes) {
  int compared = 0;
  for (const auto& [key, value] : documented()) {
    if (value.empty() || key.starts_with("host.") || key.starts_with("network.")) continue;
    const auto* text = key.starts_with("program.") ? kProgram : kTrainer;
    const auto plain = parse_train_text(text);
    auto given = parse_train_text(text, {key + "=" + value});
    ASSERT_EQ(problems_of(given), "") << key;
    auto& file = std::get<TrainFile>(given);
    file.notices.clear();
    EXPECT_EQ(file, std::get<TrainFile>(plain)) << key << " = " << value;
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(Documents, TheDefaultsOfHostsTomlAreTheRealOnes) {
  const std::string host = "[[host]]\nname = \"a\"\n";
  const auto plain = parse_hosts_toml(host, "hosts.toml");
  int compared = 0;
  for (const auto& [key, value] : documented()) {
    const auto dot = key.find('.');
    const bool of_host = key.starts_with("host.");
    if (value.empty() || value == "name" || (!of_host && !key.starts_with("network."))) continue;
    const auto line = key.substr(dot + 1) + " = " + value + "\n";
    const auto given =
        parse_hosts_toml(of_host ? host + line : host + "[network]\n" + line, "hosts.toml");
    ASSERT_EQ(problems_of(given), "") << key;
    EXPECT_EQ(std::get<HostsFile>(given), std::get<HostsFile>(plain)) << key << " = " << value;
    ++compared;
  }
  EXPECT_GT(compared, 8);
}

TEST(Documents, EveryHostsFileOfTheProjectCanBeRead) {
  const std::map<std::string, std::size_t> sizes = {
      {"hosts.toml", 2},  {"spare.toml", 5}, {"ranges.toml", 127}, {"local.toml", 3},
      {"openmpi.txt", 3}, {"mpich.txt", 3},  {"deepspeed.txt", 2}};
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "hostfiles")) {
    const auto name = entry.path().filename().string();
    if (name == "README.md") continue;
    const auto parsed = parse_hosts(read(entry.path()), name);
    ASSERT_EQ(problems_of(parsed), "");
    ASSERT_TRUE(sizes.contains(name)) << name;
    EXPECT_EQ(std::get<HostsFile>(parsed).hosts.size(), sizes.at(name)) << name;
    ++count;
  }
  EXPECT_EQ(count, sizes.size());
  const auto ranges = std::get<HostsFile>(parse_hosts(read(kRoot / "hostfiles/ranges.toml"), "r"));
  EXPECT_EQ(ranges.hosts.at(126).name, "r2n64");
  EXPECT_EQ(ranges.hosts.at(126).address, "10.0.2.64");
  EXPECT_EQ(ranges.hosts.at(126).data_address, "10.1.2.64");
}

TEST(Documents, EveryExampleCanBeRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "examples")) {
    if (entry.path().extension() != ".toml") continue;
    const auto parsed = parse_train_text(read(entry.path()));
    EXPECT_EQ(problems_of(parsed), "") << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace dlaunch::launcher::config
