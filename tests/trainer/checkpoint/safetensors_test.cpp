#include "trainer/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<FileTensor> two_tensors() {
  const std::vector<TensorSpec> specs{{"wte.weight", Dtype::f32, {3, 2}},
                                      {"ln_f.bias \"\u00e9\"", Dtype::i64, {}}};
  return place(specs);
}

TEST(Safetensors, HeadReadsBackAsItWasWritten) {
  const auto tensors = two_tensors();
  const std::string head = format_head(tensors);
  EXPECT_EQ(head.size() % 8, 0U);
  const auto length =
      json_bytes(std::as_bytes(std::span(head)).first<kLengthBytes>(), head.size() + 32);
  ASSERT_TRUE(length);
  EXPECT_EQ(*length, head.size() - kLengthBytes);
  const auto parsed = parse_header(std::string_view(head).substr(kLengthBytes), 32);
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_EQ(*parsed, tensors);
}

TEST(Safetensors, AreGivenInTheOrderOfTheirBytes) {
  const auto parsed = parse_header(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                                   R"("e":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
                                   R"("a":{"data_offsets":[0,1],"shape":[],"dtype":"U8"}}   )",
                                   3);
  ASSERT_TRUE(parsed) << parsed.error().text();
  ASSERT_EQ(parsed->size(), 3U);
  EXPECT_EQ((*parsed)[0].spec.name, "a");
  EXPECT_EQ((*parsed)[1].spec.name, "e");
  EXPECT_EQ((*parsed)[2].spec.name, "b");
}

TEST(Safetensors, MayBeEmptyOrHaveMetadataOnly) {
  EXPECT_TRUE(parse_header("{}", 0));
  EXPECT_TRUE(parse_header(R"({"__metadata__":{}})", 0));
  EXPECT_TRUE(parse_header(R"({"__metadata__":{"format":"pt","x":"[1]"}})", 0));
}

TEST(Safetensors, RefusesLengthsThatCannotBe) {
  const auto refused = [](std::uint64_t length, std::uint64_t file_bytes) {
    std::array<std::byte, kLengthBytes> bytes{};
    std::memcpy(bytes.data(), &length, sizeof length);
    return !json_bytes(bytes, file_bytes);
  };
  EXPECT_FALSE(refused(2, 10));
  EXPECT_TRUE(refused(0, 100));
  EXPECT_TRUE(refused(1, 100));
  EXPECT_TRUE(refused(93, 100));
  EXPECT_TRUE(refused(~0ULL, 100));
  EXPECT_TRUE(refused(~0ULL - 7, ~0ULL));
  EXPECT_TRUE(refused(kHeaderBytesMax + 1, 1ULL << 40));
  EXPECT_TRUE(refused(2, 7));
}

struct Bad {
  const char* why;
  std::string json;
  std::uint64_t data_bytes;
  const char* trouble;
};

std::string one(const std::string& tensor) { return R"({"a":)" + tensor + "}"; }

std::vector<Bad> bad_headers() {
  const std::string good = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  return {
      {"empty", "", 0, "does not start"},
      {"leading space", " {}", 0, "does not start"},
      {"an array", "[]", 0, "does not start"},
      {"cut off", R"({"a":{"dtype":"U8")", 4, "'}' was expected"},
      {"something after it", "{}x", 0, "something follows"},
      {"padding that is no space", std::string("{}\n"), 0, "something follows"},
      {"padding with NUL", std::string("{}\0\0", 4), 0, "something follows"},
      {"a trailing comma", R"({"a":)" + good + ",}", 4, "'\"' was expected"},
      {"the same name twice", R"({"a":)" + good + R"(,"a":)" + good + "}", 4, "appears twice"},
      {"the same name twice, escaped", R"({"a":)" + good + R"(,"\u0061":)" + good + "}", 4,
       "appears twice"},
      {"a NUL in a name", R"({"a\u0000b":)" + good + "}", 4, "no character"},
      {"a name that is not UTF-8", "{\"\xff\":" + good + "}", 4, "not UTF-8"},
      {"an empty name", R"({"":)" + good + "}", 4, "no name"},
      {"a huge name", "{\"" + std::string(600, 'n') + "\":" + good + "}", 4, "longer than 512"},
      {"a tensor that is no object", one("7"), 4, "'{' was expected"},
      {"deep nesting", one(std::string(100'000, '[')), 4, "'{' was expected"},
      {"a nested shape", one(R"({"dtype":"U8","shape":[[4]],"data_offsets":[0,4]})"), 4,
       "whole number"},
      {"an unknown key", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1})"), 4,
       "unknown key"},
      {"a key twice", one(R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"), 4,
       "twice"},
      {"no shape", one(R"({"dtype":"U8","data_offsets":[0,4]})"), 4, "lacks"},
      {"no place", one(R"({"dtype":"U8","shape":[4]})"), 4, "lacks"},
      {"nothing", one("{}"), 4, "'\"' was expected"},
      {"an unknown type", one(R"({"dtype":"F8","shape":[4],"data_offsets":[0,4]})"), 4,
       "not known"},
      {"a negative dimension", one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), 4,
       "whole number"},
      {"a fraction", one(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), 4,
       "whole number"},
      {"an exponent", one(R"({"dtype":"U8","shape":[4e0],"data_offsets":[0,4]})"), 4,
       "whole number"},
      {"a leading zero", one(R"({"dtype":"U8","shape":[04],"data_offsets":[0,4]})"), 4,
       "whole number"},
      {"a number above 2^63",
       one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]})"), 4,
       "whole number"},
      {"a product that overflows",
       one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), 0,
       "larger than any file"},
      {"an overflow hidden by a zero",
       one(R"({"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]})"), 0,
       "larger than any file"},
      {"too many dimensions",
       one(R"({"dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]})"), 4,
       "too many dimensions"},
      {"an end before its beginning", one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"), 4,
       "ends before"},
      {"three offsets", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,2,4]})"), 4,
       "']' was expected"},
      {"a shape that does not fit", one(R"({"dtype":"U16","shape":[4],"data_offsets":[0,4]})"), 4,
       "does not fit"},
      {"more data than described", one(good), 5, "describes 4 bytes"},
      {"less data than described", one(good), 3, "describes 4 bytes"},
      {"a hole at the front", one(R"({"dtype":"U8","shape":[3],"data_offsets":[1,4]})"), 4, "gap"},
      {"an overlap", R"({"a":)" + good + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       4, "gap"},
      {"a hole between",
       R"({"a":)" + good + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6, "gap"},
      {"metadata that is no map", R"({"__metadata__":[]})", 0, "'{' was expected"},
      {"metadata that is no text", R"({"__metadata__":{"a":1}})", 0, "'\"' was expected"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "appears twice"},
      {"a metadata key twice", R"({"__metadata__":{"a":"","a":""}})", 0, "a key twice"},
  };
}

TEST(Safetensors, RefusesEveryHeaderThatLies) {
  for (const Bad& bad : bad_headers()) {
    const auto parsed = parse_header(bad.json, bad.data_bytes);
    ASSERT_FALSE(parsed) << bad.why;
    EXPECT_THAT(parsed.error().doing, HasSubstr(bad.trouble)) << bad.why;
  }
}

TEST(Safetensors, RefusesAGoodHeaderCutAtAnyByte) {
  const std::string head = format_head(two_tensors()).substr(kLengthBytes);
  const std::size_t end = head.find_last_of('}');
  for (std::size_t length = 0; length <= end; ++length) {
    EXPECT_FALSE(parse_header(std::string_view(head).substr(0, length), 32)) << length;
  }
}

TEST(Safetensors, SurvivesAnyByteBeingAnother) {
  const std::string head = format_head(two_tensors()).substr(kLengthBytes);
  for (std::size_t at = 0; at < head.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = head;
      changed[at] = static_cast<char>(value);
      const auto parsed = parse_header(changed, 32);
      if (!parsed) continue;
      std::uint64_t bytes = 0;
      for (const FileTensor& tensor : *parsed) bytes += tensor.bytes;
      EXPECT_EQ(bytes, 32U) << "what is accepted covers the data";
    }
  }
}

}  // namespace
}  // namespace dlaunch::checkpoint
