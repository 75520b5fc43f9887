// A damaged checkpoint is refused by name, whatever is wrong with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/base/io/temporary_directory.h"
#include "tests/trainer/checkpoint/plain_files.h"
#include "tests/trainer/checkpoint/small_model.h"

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

class Damage : public testing::Test {
 protected:
  /// The trouble that a rank of `readers` meets; empty: none.
  [[nodiscard]] std::string trouble(std::uint32_t readers = 1) const {
    SmallModel loaded(0.0F);
    const auto report = load_checkpoint(path_, loaded.destinations(readers, Rank{0}));
    return report ? std::string() : report.error().text();
  }
  /// What the trouble is said to be: the checkpoint's, not the storage's.
  [[nodiscard]] bool is_called_damage() const {
    SmallModel loaded(0.0F);
    const auto report = load_checkpoint(path_, loaded.destinations(1, Rank{0}));
    return !report && is_damage(report.error());
  }
  [[nodiscard]] std::filesystem::path shard(std::uint32_t rank) const {
    return path_ / shard_name(2, Rank{rank});
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = save_and_commit(SmallModel(), directory_.path(), Step{4}, 2);
};

TEST_F(Damage, OfNothingIsNoTrouble) { EXPECT_EQ(trouble(), ""); }

TEST_F(Damage, OfOneBitOfTheDataIsFound) {
  std::string content = read_file(shard(1));
  content[content.size() - 3] = static_cast<char>(content[content.size() - 3] ^ 1);
  write_file(shard(1), content);
  EXPECT_THAT(trouble(), HasSubstr("shard-1-of-2.safetensors is damaged"));
  EXPECT_THAT(trouble(), HasSubstr("not those that were written"));
  EXPECT_TRUE(is_called_damage());
}

TEST_F(Damage, OfBytesThatAnotherRankWantsIsFoundToo) {
  std::string content = read_file(shard(0));
  content[content.size() - 3] = static_cast<char>(content[content.size() - 3] ^ 1);
  write_file(shard(0), content);
  EXPECT_THAT(trouble(4), HasSubstr("shard-0-of-2.safetensors is damaged"));
}

TEST_F(Damage, OfAFileCutAtAnyPlaceIsFound) {
  const std::string content = read_file(shard(0));
  for (std::size_t length = 0; length < content.size(); length += 97) {
    write_file(shard(0), content.substr(0, length));
    EXPECT_THAT(trouble(), HasSubstr("shard-0-of-2.safetensors is damaged")) << length;
    EXPECT_THAT(trouble(4), HasSubstr("shard-0-of-2.safetensors is damaged")) << length;
  }
}

TEST_F(Damage, OfAFileThatGrewIsFound) {
  write_file(shard(0), read_file(shard(0)) + "x");
  EXPECT_THAT(trouble(), HasSubstr("shard-0-of-2.safetensors is damaged"));
}

TEST_F(Damage, IsNotWhatStorageThatDoesNotAnswerIsCalled) {
  std::filesystem::remove_all(path_);
  EXPECT_THAT(trouble(), HasSubstr("No such file"));
  EXPECT_FALSE(is_called_damage()) << "the whole directory may come back with its mount";
}

TEST_F(Damage, OfAMissingFileIsFound) {
  std::filesystem::remove(shard(1));
  EXPECT_THAT(trouble(), HasSubstr("shard-1-of-2.safetensors"));
  EXPECT_THAT(trouble(), HasSubstr("it is missing"));
  EXPECT_TRUE(is_called_damage());
  EXPECT_EQ(trouble(4), "") << "the first quarter lies in the other file";
}

TEST_F(Damage, OfSwappedFilesIsFound) {
  const std::string first = read_file(shard(0));
  write_file(shard(0), read_file(shard(1)));
  write_file(shard(1), first);
  EXPECT_THAT(trouble(), HasSubstr("is damaged"));
  EXPECT_THAT(trouble(4), HasSubstr("is damaged"));
}

TEST_F(Damage, OfAFileThatIsADirectoryIsFound) {
  std::filesystem::remove(shard(1));
  std::filesystem::create_directory(shard(1));
  EXPECT_THAT(trouble(), HasSubstr("shard-1-of-2.safetensors is damaged"));
}

TEST_F(Damage, OfTheHeadIsFoundAlsoByThoseWhoReadLittle) {
  std::string content = read_file(shard(0));
  const auto at = content.find("\"shape\":[");
  ASSERT_NE(at, std::string::npos);
  content[at + 2] = 'S';
  write_file(shard(0), content);
  EXPECT_THAT(trouble(4), HasSubstr("shard-0-of-2.safetensors is damaged"));
}

TEST_F(Damage, OfTheManifestIsFound) {
  const auto path = path_ / kManifestName;
  const std::string content = read_file(path);
  write_file(path, content.substr(0, content.size() / 2));
  EXPECT_THAT(trouble(), HasSubstr("manifest.json is damaged"));
  std::filesystem::remove(path);
  EXPECT_THAT(trouble(), HasSubstr("manifest.json"));
}

TEST_F(Damage, OfAManifestThatNamesOtherTensorsIsFound) {
  const auto path = path_ / kManifestName;
  auto json = nlohmann::json::parse(read_file(path));
  json["tensors"].erase("one");
  write_file(path, json.dump());
  EXPECT_THAT(trouble(4), HasSubstr("does not have it"));
  json["tensors"]["other"] = json["tensors"]["scale"];
  write_file(path, json.dump());
  SmallModel loaded(0.0F);
  auto wanted = loaded.destinations(1, Rank{0});
  std::erase_if(wanted, [](const auto& tensor) { return tensor.spec.name == "one"; });
  const auto report = load_checkpoint(path_, wanted);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().text(), HasSubstr("differs from the manifest"));
}

}  // namespace
}  // namespace dlaunch::checkpoint
