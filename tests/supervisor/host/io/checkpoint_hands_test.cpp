// The checkpoint directory: commit, what is never overwritten, the lock.
#include "supervisor/host/io/checkpoint_hands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/io/files.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::supervisor::host {
namespace {

namespace fs = std::filesystem;

class CheckpointHands : public testing::Test {
 protected:
  /// What workers leave: one shard and a manifest without `files`.
  void write_partial(std::uint64_t step, std::uint64_t generation, const std::string& shard) {
    const auto place = directory_ + "/step-" + std::to_string(step) + ".g" +
                       std::to_string(generation) + ".partial";
    fs::create_directories(place);
    ASSERT_TRUE(replace_file(place + "/shard-0-of-1.safetensors", shard));
    ASSERT_TRUE(replace_file(place + "/manifest.json",
                             R"({"world_size": 1, "config": {"seed": 1}, "data": {}})"));
  }
  [[nodiscard]] static protocol::Commit commit_of(std::uint64_t step, const std::string& shard) {
    protocol::Commit order;
    order.set_step(step);
    auto* file = order.add_files();
    file->set_name("shard-0-of-1.safetensors");
    file->set_bytes(shard.size());
    file->set_hash("hash of " + shard);
    return order;
  }
  [[nodiscard]] static protocol::Written written_at(std::uint64_t step, const std::string& shard) {
    protocol::Written written;
    written.set_step(step);
    written.set_file("shard-0-of-1.safetensors");
    written.set_bytes(shard.size());
    written.set_hash("hash of " + shard);
    return written;
  }
  [[nodiscard]] bool is_there(const std::string& name) const {
    return fs::exists(directory_ + "/" + name);
  }

  const TemporaryDirectory temporary_;
  const std::string root_ = temporary_.text();
  const std::string directory_ = root_ + "/checkpoints";
};

TEST_F(CheckpointHands, ACommitCompletesTheManifestAndRenames) {
  write_partial(20, 3, "abc");
  EXPECT_EQ(commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc")), "");
  EXPECT_FALSE(is_there("step-20.g3.partial"));
  const auto text = read_file(directory_ + "/step-20/manifest.json", 1 << 16);
  ASSERT_TRUE(text);
  const auto manifest = nlohmann::json::parse(*text);
  EXPECT_EQ(manifest.at("files").at(0).at("name"), "shard-0-of-1.safetensors");
  EXPECT_EQ(manifest.at("files").at(0).at("bytes"), 3);
  EXPECT_EQ(manifest.at("config").at("seed"), 1);
}

TEST_F(CheckpointHands, AShardOfAnotherSizeIsRefused) {
  write_partial(20, 3, "ab");
  const auto sentence = commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc"));
  EXPECT_NE(sentence.find("has 2 bytes where 3 were written"), std::string::npos) << sentence;
  EXPECT_FALSE(is_there("step-20"));
}

TEST_F(CheckpointHands, ADamagedOneIsSetAsideForTheOneWrittenAgain) {
  write_partial(20, 3, "abc");
  ASSERT_EQ(commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc")), "");
  ASSERT_TRUE(replace_file(directory_ + "/step-20/shard-0-of-1.safetensors", "a?c"));
  write_partial(20, 4, "abc");
  auto order = commit_of(20, "abc");
  order.set_replaces_damaged(true);
  EXPECT_EQ(commit_checkpoint(directory_, Generation{4}, order), "");
  EXPECT_EQ(commit_checkpoint(directory_, Generation{4}, order), "") << "repeated";
  EXPECT_EQ(read_file(directory_ + "/step-20/shard-0-of-1.safetensors", 16).value_or(""), "abc");
  EXPECT_EQ(read_file(directory_ + "/step-20.damaged/shard-0-of-1.safetensors", 16).value_or(""),
            "a?c");
  const auto found = inspect_checkpoints(directory_, "job", 60s);
  EXPECT_EQ(found.checkpoints_size(), 1) << "what was set aside does not count";
}

TEST_F(CheckpointHands, AManifestThatIsNoneIsCalledDamaged) {
  write_partial(20, 3, "abc");
  ASSERT_EQ(commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc")), "");
  ASSERT_TRUE(replace_file(directory_ + "/step-20/manifest.json", "{\"world_"));
  fs::create_directories(directory_ + "/step-40");
  fs::create_directories(directory_ + "/step-60");
  ASSERT_TRUE(replace_file(directory_ + "/step-60/manifest.json", R"({"world_size": "two"})"));
  const auto found = inspect_checkpoints(directory_, "job", 60s);
  EXPECT_EQ(found.error(), "");
  EXPECT_EQ(found.checkpoints_size(), 0);
  ASSERT_EQ(found.damaged_size(), 3);
  EXPECT_EQ(found.damaged(0).step(), 20U);
  EXPECT_NE(found.damaged(0).reason().find("no manifest"), std::string::npos);
  EXPECT_EQ(found.damaged(1).step(), 40U);
  EXPECT_NE(found.damaged(1).reason().find("missing"), std::string::npos);
  EXPECT_EQ(found.damaged(2).step(), 60U);
}

TEST_F(CheckpointHands, AnOrderThatIsRepeatedSucceedsAndAnotherCheckpointIsNeverOverwritten) {
  write_partial(20, 3, "abc");
  ASSERT_EQ(commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc")), "");
  EXPECT_EQ(commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc")), "");
  write_partial(20, 4, "xyz");
  EXPECT_NE(commit_checkpoint(directory_, Generation{4}, commit_of(20, "xyz")), "");
  EXPECT_EQ(read_file(directory_ + "/step-20/shard-0-of-1.safetensors", 16).value_or(""), "abc");
}

TEST_F(CheckpointHands, DeletesWhatIsOrderedAndWhatOlderGenerationsLeft) {
  write_partial(10, 1, "a");
  ASSERT_EQ(commit_checkpoint(directory_, Generation{1}, commit_of(10, "a")), "");
  write_partial(15, 1, "b");
  write_partial(20, 2, "c");
  write_partial(25, 2, "d");
  auto order = commit_of(20, "c");
  order.add_delete_steps(10);
  EXPECT_EQ(commit_checkpoint(directory_, Generation{2}, order), "");
  EXPECT_FALSE(is_there("step-10"));
  EXPECT_FALSE(is_there("step-15.g1.partial"));
  EXPECT_TRUE(is_there("step-20"));
  EXPECT_TRUE(is_there("step-25.g2.partial")) << "it is being written";
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_EQ(entry.path().filename().string().find(".trash"), std::string::npos);
  }
}

TEST_F(CheckpointHands, ListsWhatIsCompleteOldestFirst) {
  for (const auto step : {100U, 20U}) {
    write_partial(step, 1, "a");
    ASSERT_EQ(commit_checkpoint(directory_, Generation{1}, commit_of(step, "a")), "");
  }
  write_partial(120, 1, "a");
  fs::create_directories(directory_ + "/step-30");
  fs::create_directories(directory_ + "/step-40x");
  const auto found = inspect_checkpoints(directory_, "job-1", 60s);
  EXPECT_EQ(found.error(), "");
  ASSERT_EQ(found.checkpoints_size(), 2);
  EXPECT_EQ(found.checkpoints(0).step(), 20U);
  EXPECT_EQ(found.checkpoints(1).step(), 100U);
  EXPECT_EQ(found.checkpoints(0).world_size(), 1U);
  EXPECT_EQ(nlohmann::json::parse(found.checkpoints(0).config()).at("seed"), 1);
}

TEST_F(CheckpointHands, WhatWasWrittenWithoutAControllerIsCommittedByWhoeverLooksNext) {
  write_partial(20, 3, "abc");
  write_partial(30, 3, "abcd");
  ASSERT_TRUE(note_written(directory_, Generation{3}, written_at(20, "abc")));
  const auto found = inspect_checkpoints(directory_, "job-1", 60s);
  ASSERT_EQ(found.checkpoints_size(), 1) << "of step 30 no rank has said that it is whole";
  EXPECT_EQ(found.checkpoints(0).step(), 20U);
  EXPECT_FALSE(is_there("step-20/shard-0-of-1.safetensors.written"));
  const auto text = read_file(directory_ + "/step-20/manifest.json", 1 << 16);
  ASSERT_TRUE(text);
  EXPECT_EQ(nlohmann::json::parse(*text).at("files").at(0).at("hash"), "hash of abc");
}

TEST_F(CheckpointHands, WhatWasNotedTakesThePlaceOfADamagedCheckpoint) {
  write_partial(20, 3, "abc");
  ASSERT_TRUE(note_written(directory_, Generation{3}, written_at(20, "abc")));
  fs::create_directories(directory_ + "/step-20");
  ASSERT_TRUE(replace_file(directory_ + "/step-20/manifest.json", "torn"));
  const auto found = inspect_checkpoints(directory_, "job-1", 60s);
  ASSERT_EQ(found.checkpoints_size(), 1);
  EXPECT_EQ(found.checkpoints(0).step(), 20U);
  EXPECT_EQ(found.damaged_size(), 0);
}

TEST_F(CheckpointHands, WhatWasNotedButCannotBeCommittedIsSaidAndKept) {
  write_partial(20, 3, "abc");
  ASSERT_TRUE(note_written(directory_, Generation{3}, written_at(20, "abc")));
  // Where the manifest is to be replaced there is something that cannot be.
  fs::create_directories(directory_ + "/step-20.g3.partial/manifest.json.tmp");
  const auto found = inspect_checkpoints(directory_, "job-1", 60s);
  EXPECT_FALSE(found.error().empty());
  EXPECT_EQ(found.checkpoints_size(), 0);
  EXPECT_TRUE(is_there("step-20.g3.partial/shard-0-of-1.safetensors"));
}

TEST_F(CheckpointHands, ACommitInTimeLeavesNoNote) {
  write_partial(20, 3, "abc");
  ASSERT_TRUE(note_written(directory_, Generation{3}, written_at(20, "abc")));
  ASSERT_EQ(commit_checkpoint(directory_, Generation{3}, commit_of(20, "abc")), "");
  EXPECT_TRUE(is_there("step-20/shard-0-of-1.safetensors"));
  EXPECT_FALSE(is_there("step-20/shard-0-of-1.safetensors.written"));
}

TEST_F(CheckpointHands, WhereARankHasNotWrittenNothingIsCommitted) {
  write_partial(20, 3, "abc");
  ASSERT_TRUE(replace_file(directory_ + "/step-20.g3.partial/manifest.json",
                           R"({"world_size": 2, "config": {}, "data": {}})"));
  protocol::Written written;
  written.set_step(20);
  written.set_file("shard-0-of-2.safetensors");
  ASSERT_TRUE(note_written(directory_, Generation{3}, written));
  EXPECT_EQ(inspect_checkpoints(directory_, "job-1", 60s).checkpoints_size(), 0);
}

TEST_F(CheckpointHands, ADirectoryThatAnotherJobHasIsNotUsed) {
  EXPECT_EQ(inspect_checkpoints(directory_, "job-1", 60s).locked_by(), "");
  EXPECT_EQ(inspect_checkpoints(directory_, "job-1", 60s).locked_by(), "") << "its own";
  EXPECT_EQ(inspect_checkpoints(directory_, "job-2", 60s).locked_by(), "job-1");
}

TEST_F(CheckpointHands, ADirectoryThatCannotBeMadeIsSaid) {
  ASSERT_TRUE(replace_file(root_ + "/file", "x"));
  const auto found = inspect_checkpoints(root_ + "/file/checkpoints", "job-1", 60s);
  EXPECT_NE(found.error().find("Not a directory"), std::string::npos) << found.error();
}

}  // namespace
}  // namespace dlaunch::supervisor::host
