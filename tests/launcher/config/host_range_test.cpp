#include "launcher/config/host_range.h"

#include <gmock/gmock.h>

namespace dlaunch::launcher::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostRange, KeepsZeroPadding) {
  EXPECT_THAT(*expand_range("gpu[08-11]"), ElementsAre("gpu08", "gpu09", "gpu10", "gpu11"));
  EXPECT_THAT(*expand_range("gpu[8-11]"), ElementsAre("gpu8", "gpu9", "gpu10", "gpu11"));
  EXPECT_THAT(*expand_range("gpu[099-101]"), ElementsAre("gpu099", "gpu100", "gpu101"));
}

TEST(HostRange, TakesListsOfRangesInTheirOrder) {
  EXPECT_THAT(*expand_range("n[7,1-3,05]x"), ElementsAre("n7x", "n1x", "n2x", "n3x", "n05x"));
}

TEST(HostRange, MultipliesSeveralBracketsAndTheLastRunsFastest) {
  EXPECT_THAT(*expand_range("rack[0-1]_blade[0-2]"),
              ElementsAre("rack0_blade0", "rack0_blade1", "rack0_blade2", "rack1_blade0",
                          "rack1_blade1", "rack1_blade2"));
}

TEST(HostRange, ATextWithoutBracketsIsItself) {
  EXPECT_THAT(*expand_range("login.example.org"), ElementsAre("login.example.org"));
}

TEST(HostRange, SaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "empty name"},
      {"gpu[04-01]", "empty range"},
      {"gpu[]", "no list of numbers"},
      {"gpu[1-]", "no list of numbers"},
      {"gpu[-1]", "no list of numbers"},
      {"gpu[a-c]", "no list of numbers"},
      {"gpu[1,,2]", "no list of numbers"},
      {"gpu[1-2", "not closed"},
      {"gpu1-2]", "not closed, or not opened"},
      {"gpu[1[2]]", "not closed"},
      {"gpu[1-999999999]", "more than 65536"},
      {"gpu[1-99999999999999999999]", "no list of numbers"},
      {"gpu[0-65536]", "more than 65536"},
      {"a[0-255]b[0-255]c[0-1]", "more than 65536"},
      {"a[0-9]" + std::string(300, 'x'), "longer than 255"},
  };
  for (const auto& [text, why] : cases) {
    const auto names = expand_range(text);
    ASSERT_FALSE(names) << text;
    EXPECT_THAT(names.error().text(), HasSubstr(why)) << text;
  }
}

TEST(HostRange, ExpandsAsManyNamesAsAreAllowed) {
  EXPECT_EQ(expand_range("gpu[0-65535]")->size(), kHostNamesMax);
  EXPECT_EQ(expand_range("a[0-255]b[0-255]")->size(), kHostNamesMax);
}

TEST(HostRange, SplitsListsAtCommasOutsideBrackets) {
  EXPECT_THAT(*expand_list("node[01-02,20],gpu1"),
              ElementsAre("node01", "node02", "node20", "gpu1"));
  EXPECT_FALSE(expand_list("node1,,node2"));
  EXPECT_FALSE(expand_list("a[0-65535],b"));
}

}  // namespace
}  // namespace dlaunch::launcher::config
