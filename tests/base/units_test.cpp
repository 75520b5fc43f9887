#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

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

TEST(FromSeconds, BoundsWhatOthersSay) {
  constexpr auto kTenYears = nanoseconds(24h) * 365 * 10;
  EXPECT_EQ(from_seconds(2.5), 2500ms);
  EXPECT_EQ(from_seconds(-0.25), -250ms);
  EXPECT_EQ(from_seconds(1e300), kTenYears);
  EXPECT_EQ(from_seconds(-std::numeric_limits<double>::infinity()), -kTenYears);
  EXPECT_EQ(from_seconds(std::numeric_limits<double>::quiet_NaN()), 0ns);
}

TEST(FormatDuration, IsReadBackAsTheSameDuration) {
  for (const auto duration : {nanoseconds(600ms), nanoseconds(1500ms), nanoseconds(10min),
                              nanoseconds(2h), nanoseconds(72h), nanoseconds(250us)}) {
    EXPECT_EQ(parse_duration(format_duration(duration)), duration) << format_duration(duration);
  }
}

}  // namespace
}  // namespace dlaunch
