#include "base/units.h"

#include <gtest/gtest.h>

namespace dlaunch {
namespace {

TEST(ParseDuration, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_duration("600 ms"), 600ms);
  EXPECT_EQ(parse_duration("5s"), 5s);
  EXPECT_EQ(parse_duration(" 10 min "), 10min);
  EXPECT_EQ(parse_duration("1.5 h"), 90min);
  EXPECT_EQ(parse_duration("0 s"), 0s);
}

TEST(ParseDuration, RefusesWhatIsNotADuration) {
  for (const auto* text : {"", "5", "s", "-1 s", "5 parsecs", "1e99 s", "nan s", "5 s s"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(FormatDuration, IsReadBackAsTheSameDuration) {
  for (const auto duration : {nanoseconds(600ms), nanoseconds(1500ms), nanoseconds(10min),
                              nanoseconds(2h), nanoseconds(72h), nanoseconds(250us)}) {
    EXPECT_EQ(parse_duration(format_duration(duration)), duration) << format_duration(duration);
  }
}

}  // namespace
}  // namespace dlaunch
