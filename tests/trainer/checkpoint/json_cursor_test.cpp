#include "trainer/checkpoint/json_cursor.h"

#include <gtest/gtest.h>

namespace dlaunch::checkpoint {
namespace {

std::optional<std::string> read_string(std::string_view text) {
  JsonCursor cursor(text);
  const auto value = cursor.string(64);
  EXPECT_EQ(value.has_value(), !cursor.failed());
  return value;
}

std::optional<std::uint64_t> read_number(std::string_view text) {
  JsonCursor cursor(text);
  return cursor.number();
}

TEST(JsonCursor, ReadsStringsWithEveryEscape) {
  EXPECT_EQ(read_string(R"("h.0.attn")"), "h.0.attn");
  EXPECT_EQ(read_string(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read_string(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
}

TEST(JsonCursor, RefusesStringsThatAreNone) {
  for (const std::string_view text :
       {R"(x)", R"("open)", R"("a\)", R"("\x")", R"("\u12")", R"("\u12g4")", R"("\u0000")",
        R"("\ud800")", R"("\ud800x")", R"("\ud800\u0041")", R"("\udc00")", "\"\n\"", "\"\xff\"",
        "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""}) {
    EXPECT_FALSE(read_string(text)) << text;
  }
  EXPECT_FALSE(read_string(std::string_view("\"a\0b\"", 5)));
  EXPECT_FALSE(read_string('"' + std::string(65, 'a') + '"')) << "longer than allowed";
  EXPECT_TRUE(read_string('"' + std::string(64, 'a') + '"'));
}

TEST(JsonCursor, ReadsWholeNumbersOnly) {
  EXPECT_EQ(read_number("0"), 0U);
  EXPECT_EQ(read_number(" 42]"), 42U);
  EXPECT_EQ(read_number("9223372036854775807"), 9223372036854775807U);
  for (const char* text : {"", "-1", "+1", "01", "1.0", "1e3", "1E3", "9223372036854775808",
                           "18446744073709551616", "true", "\"1\""}) {
    EXPECT_FALSE(read_number(text)) << text;
  }
}

TEST(JsonCursor, StaysFailedAndKeepsTheFirstTrouble) {
  JsonCursor cursor("[1");
  EXPECT_FALSE(cursor.expect('{'));
  EXPECT_EQ(cursor.trouble(), "'{' was expected at byte 0");
  EXPECT_FALSE(cursor.next_is('['));
  EXPECT_FALSE(cursor.number());
  EXPECT_FALSE(cursor.expect_end());
  EXPECT_EQ(cursor.trouble(), "'{' was expected at byte 0");
}

}  // namespace
}  // namespace dlaunch::checkpoint
