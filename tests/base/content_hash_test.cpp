#include "base/content_hash.h"

#include <gtest/gtest.h>

namespace dlaunch {
namespace {

TEST(ContentHash, IsXxh3OverAllBytesHoweverTheyCome) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const auto bytes = std::as_bytes(std::span(text));
  ContentHash hash;
  hash.update(bytes.first(10));
  hash.update(bytes.subspan(10));
  EXPECT_EQ(hash.hex(), content_hash(bytes));
  EXPECT_TRUE(is_content_hash(hash.hex()));
  EXPECT_EQ(content_hash({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_FALSE(is_content_hash("99aa06d3014798d86001c324468d497"));
  EXPECT_FALSE(is_content_hash("99AA06d3014798d86001c324468d497f"));
}

}  // namespace
}  // namespace dlaunch
