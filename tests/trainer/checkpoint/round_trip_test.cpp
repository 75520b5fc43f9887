// What any number of ranks saved, any number of ranks gets back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "tests/base/io/temporary_directory.h"
#include "tests/trainer/checkpoint/plain_files.h"
#include "tests/trainer/checkpoint/small_model.h"

namespace dlaunch::checkpoint {
namespace {

using testing::HasSubstr;

SaveRequest request_for(const std::filesystem::path& directory, Step step,
                        std::uint64_t generation = 1) {
  SaveRequest request;
  request.directory = directory;
  request.step = step;
  request.generation = Generation{generation};
  return request;
}

TEST(RoundTrip, GivesTheSameBytesBetweenAllWorldSizes) {
  const TemporaryDirectory directory;
  const SmallModel saved;
  for (std::uint32_t writers = 1; writers <= 4; ++writers) {
    const auto path = save_and_commit(saved, directory.path(), Step{writers}, writers);
    for (std::uint32_t readers = 1; readers <= 5; ++readers) {
      SmallModel loaded(1000.0F);
      for (std::uint32_t rank = 0; rank < readers; ++rank) {
        const auto report = load_checkpoint(path, loaded.destinations(readers, Rank{rank}));
        ASSERT_TRUE(report) << report.error().text();
        EXPECT_EQ(report->manifest.step, Step{writers});
        EXPECT_EQ(report->manifest.world_size, writers);
      }
      EXPECT_TRUE(loaded == saved) << writers << " saved, " << readers << " loaded";
    }
  }
}

TEST(RoundTrip, VerifiesWholeFilesAndReadsNoMoreThanIsWanted) {
  const TemporaryDirectory directory;
  const SmallModel saved;
  const auto path = save_and_commit(saved, directory.path(), Step{1}, 2);
  SmallModel loaded(0.0F);
  const auto whole = load_checkpoint(path, loaded.destinations(1, Rank{0}));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->files_verified, 2U);
  EXPECT_EQ(whole->bytes_read, whole->manifest.files[0].bytes + whole->manifest.files[1].bytes);
  const auto quarter = load_checkpoint(path, loaded.destinations(4, Rank{3}));
  ASSERT_TRUE(quarter);
  EXPECT_EQ(quarter->files_verified, 1U) << "all of a file of which it wants a part";
  EXPECT_LT(quarter->bytes_read, whole->bytes_read / 2);
}

TEST(RoundTrip, KeepsTheSnapshotWhenTheModelGoesOn) {
  const TemporaryDirectory directory;
  SmallModel model;
  ShardWriter writer;
  std::promise<Result<ShardReport>> reported;
  const SaveRequest request = request_for(directory.path(), Step{5});
  const auto started = writer.start(request, model.views(), [&](Result<ShardReport> report) {
    reported.set_value(std::move(report));
  });
  ASSERT_TRUE(started) << started.error().text();
  model = SmallModel(77.0F);
  const auto report = reported.get_future().get();
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_GE(report->seconds, report->blocked);
  SmallModel loaded(0.0F);
  const auto read =
      load_checkpoint(directory.path() / "step-5.g1.partial", loaded.destinations(1, Rank{0}));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_TRUE(loaded == SmallModel());
}

TEST(RoundTrip, WritesTheSameFileForTheSameState) {
  const TemporaryDirectory one;
  const TemporaryDirectory other;
  const auto first = save_and_commit(SmallModel(), one.path(), Step{9}, 3);
  const auto second = save_and_commit(SmallModel(), other.path(), Step{9}, 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const std::string name = shard_name(3, Rank{rank});
    EXPECT_EQ(read_file(first / name), read_file(second / name));
  }
  EXPECT_EQ(read_file(first / kManifestName), read_file(second / kManifestName));
}

TEST(ShardWriter, LeavesFilesOfAnotherGenerationAlone) {
  const TemporaryDirectory directory;
  const SmallModel model;
  for (const std::uint64_t generation : {1, 2}) {
    ShardWriter writer;
    const SaveRequest request = request_for(directory.path(), Step{5}, generation);
    ASSERT_TRUE(writer.start(request, model.views(), [](Result<ShardReport> report) {
      EXPECT_TRUE(report) << report.error().text();
    }));
    ASSERT_TRUE(writer.wait_idle(30s));
  }
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "step-5.g1.partial" / kManifestName));
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "step-5.g2.partial" / kManifestName));
}

TEST(ShardWriter, RefusesASecondSaveOfTheSameStepAndGeneration) {
  const TemporaryDirectory directory;
  const SmallModel model;
  ShardWriter writer;
  const SaveRequest request = request_for(directory.path(), Step{5});
  int failures = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_TRUE(writer.start(request, model.views(), [&](const Result<ShardReport>& report) {
      if (!report) ++failures;
    }));
    ASSERT_TRUE(writer.wait_idle(30s));
  }
  EXPECT_EQ(failures, 1);
}

TEST(ShardWriter, ReportsADirectoryThatCannotBe) {
  const TemporaryDirectory directory;
  write_file(directory.path() / "checkpoints", "a file is in the way");
  const SmallModel model;
  ShardWriter writer;
  std::promise<Result<ShardReport>> reported;
  const SaveRequest request = request_for(directory.path() / "checkpoints", Step{5});
  ASSERT_TRUE(writer.start(request, model.views(), [&](Result<ShardReport> report) {
    reported.set_value(std::move(report));
  }));
  const auto report = reported.get_future().get();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().text(), HasSubstr("checkpoints/step-5.g1.partial"));
}

TEST(ShardWriter, SaysThatItIsBusy) {
  const TemporaryDirectory directory;
  const SmallModel model;
  ShardWriter writer;
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future();
  SaveRequest request = request_for(directory.path(), Step{5});
  ASSERT_TRUE(
      writer.start(request, model.views(), [&](const Result<ShardReport>&) { may_go_on.wait(); }));
  request.step = Step{6};
  const auto second = writer.start(request, model.views(), [](const Result<ShardReport>&) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, std::errc::device_or_resource_busy);
  EXPECT_TRUE(writer.busy());
  EXPECT_FALSE(writer.wait_idle(1ms));
  go_on.set_value();
  EXPECT_TRUE(writer.wait_idle(30s));
  EXPECT_FALSE(writer.busy());
}

}  // namespace
}  // namespace dlaunch::checkpoint
