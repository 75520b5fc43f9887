#include "base/utf8.h"

#include <gtest/gtest.h>

namespace dlaunch {
namespace {

const std::string kMark = "\xEF\xBF\xBD";

TEST(Utf8, LeavesTextAsItIs) {
  for (const std::string text : {"", "loss 1.5", "Größe", "█▌", "\U0001F680 rocket", "\x7F"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(to_utf8(text), text);
  }
}

TEST(Utf8, ReplacesEachSequenceThatIsNone) {
  EXPECT_EQ(to_utf8("\xFF"), kMark);
  EXPECT_EQ(to_utf8("gr\xFC\xDF"), "gr" + kMark + kMark);      // Latin-1
  EXPECT_EQ(to_utf8("a\xE2\x96"), "a" + kMark);                // cut inside a character
  EXPECT_EQ(to_utf8("\xE2\x96z"), kMark + "z");                // the next one is not swallowed
  EXPECT_EQ(to_utf8("\x88\x88"), kMark + kMark);               // only ends
  EXPECT_EQ(to_utf8("\xC0\xAF"), kMark + kMark);               // overlong
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), kMark + kMark + kMark);   // a surrogate
  EXPECT_EQ(to_utf8("\xF4\x90\x80\x80").substr(0, 3), kMark);  // above U+10FFFF
  EXPECT_EQ(to_utf8("\xF5"), kMark);
}

TEST(Utf8, WhatComesOutIsUtf8WhateverGoesIn) {
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      for (const unsigned third : {0x41U, 0x80U, 0xBFU, 0xE2U}) {
        const std::string bytes{static_cast<char>(first), static_cast<char>(second),
                                static_cast<char>(third)};
        ASSERT_TRUE(is_utf8(to_utf8(bytes))) << first << " " << second << " " << third;
      }
    }
  }
}

TEST(Utf8, CutsBetweenCharactersOnly) {
  std::string bar;
  for (int i = 0; i < 200; ++i) bar += "█";
  EXPECT_EQ(cut_utf8(bar, 512).size(), 510U);
  EXPECT_TRUE(is_utf8(cut_utf8(bar, 512)));
  EXPECT_EQ(cut_utf8("abc", 3), "abc");
  EXPECT_EQ(cut_utf8("ab█", 2), "ab");
  EXPECT_EQ(cut_utf8("█", 0), "");
}

TEST(Utf8, ABoundHoldsForWhatIsReplacedToo) {
  const auto text = to_utf8(std::string(600, '\x80'), 512);
  EXPECT_EQ(text.size(), 510U);
  EXPECT_TRUE(is_utf8(text));
}

}  // namespace
}  // namespace dlaunch
