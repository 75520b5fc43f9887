#include "trainer/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

const std::string kHash(32, 'a');

Manifest example() {
  const std::vector<TensorSpec> specs{{"wte.weight", Dtype::f32, {5, 2}}, {"step", Dtype::i64, {}}};
  Manifest manifest =
      make_manifest(Step{800}, 2, {{"layers", 4}, {"betas", {0.9, 0.95}}}, {4404412, kHash}, specs);
  manifest.numerics = "torch 2.11.0, AVX2";
  manifest.files = {{"shard-0-of-2.safetensors", 100, kHash},
                    {"shard-1-of-2.safetensors", 90, kHash}};
  return manifest;
}

TEST(Manifest, PlacesRowsByTheLayout) {
  const Manifest manifest = example();
  const auto& wte = manifest.tensors.at("wte.weight").shards;
  ASSERT_EQ(wte.size(), 2U);
  EXPECT_EQ(wte[0], (ManifestShard{"shard-0-of-2.safetensors", 0, 3}));
  EXPECT_EQ(wte[1], (ManifestShard{"shard-1-of-2.safetensors", 3, 2}));
  const auto& step = manifest.tensors.at("step").shards;
  ASSERT_EQ(step.size(), 1U) << "a single row lies with rank 0";
  EXPECT_EQ(step[0], (ManifestShard{"shard-0-of-2.safetensors", 0, 1}));
}

TEST(Manifest, ReadsBackAsItWasWritten) {
  const Manifest written = example();
  const auto read = parse_manifest(format_manifest(written));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->step, Step{800});
  EXPECT_EQ(read->world_size, 2U);
  EXPECT_EQ(read->config, written.config);
  EXPECT_EQ(read->data, written.data);
  EXPECT_EQ(read->tensors, written.tensors);
  EXPECT_EQ(read->files, written.files);
  EXPECT_EQ(read->numerics, written.numerics);
}

TEST(Manifest, HasNoFilesBeforeTheCommit) {
  Manifest manifest = example();
  manifest.files.clear();
  const std::string text = format_manifest(manifest);
  EXPECT_EQ(text.find("\"files\""), std::string::npos);
  EXPECT_TRUE(parse_manifest(text)->files.empty());
}

TEST(Manifest, IgnoresKeysItDoesNotKnow) {
  auto json = nlohmann::json::parse(format_manifest(example()));
  json["later"] = {{"a", 1}};
  EXPECT_TRUE(parse_manifest(json.dump()));
}

struct Lie {
  const char* at;  ///< JSON pointer
  nlohmann::json value;
  const char* trouble;
};

TEST(Manifest, RefusesWhatCannotBe) {
  const std::vector<Lie> lies{
      {"/format", 2, "newer dlaunch"},
      {"/format", "1", "\"format\""},
      {"/step", -1, "\"step\""},
      {"/step", 1.5, "\"step\""},
      {"/world_size", 0, "\"world_size\""},
      {"/world_size", 100000, "\"world_size\""},
      {"/config", 7, "\"config\""},
      {"/data", nullptr, "\"data\""},
      {"/tensors", nlohmann::json::array(), "\"tensors\""},
      {"/tensors/wte.weight", 1, "no proper name or description"},
      {"/tensors/wte.weight/dtype", "F31", "element type"},
      {"/tensors/wte.weight/shape", "5", "\"shape\""},
      {"/tensors/wte.weight/shape/0", -5, "no number"},
      {"/tensors/wte.weight/shape", {1ULL << 40, 1ULL << 40}, "cannot be"},
      {"/tensors/wte.weight/shape", {1, 1, 1, 1, 1, 1, 1, 1, 1}, "cannot be"},
      {"/tensors/wte.weight/shape/0", 6, "lacks its last rows"},
      {"/tensors/wte.weight/shape/0", 4, "gap or overlap"},
      {"/tensors/wte.weight/shards", 1, "\"shards\""},
      {"/tensors/wte.weight/shards/0", 1, "no object"},
      {"/tensors/wte.weight/shards/0/file", "../../etc/passwd", "no shard"},
      {"/tensors/wte.weight/shards/0/rows", 2, "gap or overlap"},
      {"/tensors/wte.weight/shards/0/rows", 0, "gap or overlap"},
      {"/tensors/wte.weight/shards/1/rows", ~0ULL, "gap or overlap"},
      {"/tensors/wte.weight/shards/1/first_row", 2, "gap or overlap"},
      {"/files", 1, "no list"},
      {"/files/0", 1, "no object"},
      {"/files/0/hash", "xyz", "hash"},
      {"/files/0/name", "shard-1-of-2.safetensors", "twice"},
      {"/files", nlohmann::json::array(), "lacks shard-0-of-2.safetensors"},
  };
  for (const Lie& lie : lies) {
    auto json = nlohmann::json::parse(format_manifest(example()));
    json[nlohmann::json::json_pointer(lie.at)] = lie.value;
    const auto read = parse_manifest(json.dump());
    ASSERT_FALSE(read) << lie.at << " = " << lie.value;
    EXPECT_THAT(read.error().doing, HasSubstr(lie.trouble)) << lie.at << " = " << lie.value;
  }
}

TEST(Manifest, RefusesTextThatIsNoneWithoutFalling) {
  for (const char* text : {"", "{", "[]", "null", "{}x", "{\"format\":1}", "\xff\xfe"}) {
    EXPECT_FALSE(parse_manifest(text)) << text;
  }
  EXPECT_FALSE(parse_manifest(std::string(1'000'000, '[')));
  EXPECT_FALSE(
      parse_manifest("{\"config\":" + std::string(1000, '[') + std::string(1000, ']') + "}"));
}

TEST(Manifest, CutAtAnyByteIsRefused) {
  const std::string text = format_manifest(example());
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse_manifest(std::string_view(text).substr(0, length))) << length;
  }
}

}  // namespace
}  // namespace dlaunch::checkpoint
