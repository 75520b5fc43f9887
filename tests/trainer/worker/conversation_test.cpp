// What a worker says to its agent, and what it does when it is told something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/trainer/worker/worker_fixture.h"
#include "trainer/checkpoint/layout.h"
#include "trainer/exit_code.h"

namespace dlaunch::trainer {
namespace {

namespace message = protocol::worker;
using message::FailingCategory;
using testing::HasSubstr;

/// Enough steps that a run never ends by itself within a test.
constexpr std::uint64_t kEndless = 1'000'000;

class Conversation : public WorkerTest {
 protected:
  void start_training(FakeJob& job, std::uint32_t ranks) {
    job.start(ranks);
    job.assign(Generation{1});
    job.go();
    job.wait_until("training is under way", [&] { return job.worker(0).step() >= 2; });
  }
  /// The one worker's `failing`, after it has ended with code 1.
  message::Failing failing_of(FakeJob& job) {
    job.wait_all_ended();
    EXPECT_EQ(job.worker(0).exit_code(), kExitFailed) << job.worker(0).output();
    const auto failing = job.worker(0).last<message::Failing>();
    EXPECT_TRUE(failing) << job.worker(0).output();
    if (!failing) return {};
    EXPECT_THAT(job.worker(0).output(), HasSubstr(failing->reason));
    return *failing;
  }
};

TEST_F(Conversation, ARunSaysEverythingInOrderAndEndsWithZero) {
  auto job = make_job(settings());
  job.run(2);
  const auto& worker = job.worker(1);
  std::vector<std::size_t> kinds;
  for (const auto& entry : worker.said()) {
    EXPECT_EQ(entry.generation, Generation{1});
    if (!std::holds_alternative<message::Progress>(entry.body)) kinds.push_back(entry.body.index());
  }
  const auto index = [](auto body) { return protocol::WorkerMessage::Body(body).index(); };
  EXPECT_THAT(kinds, testing::ElementsAre(index(message::Hello{}), index(message::Ready{}),
                                          index(message::Parked{}), index(message::Connected{}),
                                          index(message::Restored{}), index(message::Written{}),
                                          index(message::Finished{})));
  EXPECT_EQ(worker.last<message::Hello>()->rank, Rank{1});
  EXPECT_EQ(worker.last<message::Written>()->file, "shard-1-of-2.safetensors");
  EXPECT_EQ(worker.last<message::Finished>()->step, Step{12});
  EXPECT_EQ(worker.exit_code(), 0);
  EXPECT_THAT(worker.output(), HasSubstr("step 12/12  loss "));
}

TEST_F(Conversation, ProgressCarriesStepsLossTokensAndCollectivesAndTheLossFalls) {
  auto job = make_job(settings(60));
  job.run(2);
  const auto progress = job.worker(0).all<message::Progress>();
  std::uint64_t step = 0;
  for (const auto& entry : progress) {
    EXPECT_GE(entry.step.value, step);
    step = entry.step.value;
  }
  // An untrained model guesses among 256 bytes: ln 256 is 5.55.
  EXPECT_THAT(job.worker(0).output(), testing::ContainsRegex("step 1/60  loss 5[.][3-8]"));
  ASSERT_TRUE(progress.back().loss);
  EXPECT_LT(*progress.back().loss, 4.0);
  EXPECT_EQ(progress.back().step, Step{60}) << "the last step is told, however soon the end comes";
  EXPECT_EQ(progress.back().tokens, 8u * 2 * 16);
  EXPECT_GE(progress.back().sequence, 60u) << "at least one collective a step";
}

TEST_F(Conversation, AnAssignmentToThousandsOfRanksIsUnderstood) {
  auto trainer = settings();
  trainer["logical_batches"] = 4096;
  auto job = make_job(trainer);
  job.start(1);
  auto& worker = job.worker(0);
  message::Assign assign;
  assign.job = "job";
  assign.group = "main";
  assign.rank = Rank{4095};  // it is dialled by all others and waits for them
  assign.world_size = 4096;
  assign.token = std::string(64, '1');
  for (std::uint32_t rank = 0; rank < 4096; ++rank) {
    assign.endpoints.push_back({Rank{rank}, "127.0.0.1", 9});
  }
  assign.checkpoint_directory = (text().parent_path() / "checkpoints").string();
  assign.trainer = trainer.dump();
  worker.tell(Generation{1}, assign);
  job.wait_until("it connects", [&] {
    const auto progress = worker.last<message::Progress>();
    return worker.ended() || (progress && progress->phase == "connect");
  });
  worker.tell(Generation{1}, message::Abort{"that was all"});
  job.wait_until("it is parked again",
                 [&] { return worker.ended() || worker.all<message::Parked>().size() == 2; });
  EXPECT_FALSE(worker.ended()) << worker.output();
  EXPECT_FALSE(worker.last<message::Failing>()) << worker.last<message::Failing>()->reason;
}

TEST_F(Conversation, AStopWithCheckpointEndsAllRanksAtTheSameStep) {
  auto job = make_job(settings(kEndless));
  start_training(job, 3);
  job.worker(2).tell(Generation{1}, message::Stop{true});  // one word is enough for all
  job.wait_all_ended();
  const auto step = job.worker(0).last<message::Finished>()->step;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(job.worker(i).exit_code(), 0) << job.worker(i).output();
    EXPECT_EQ(job.worker(i).last<message::Finished>()->step, step);
    EXPECT_EQ(job.worker(i).last<message::Written>()->step, step);
  }
  job.commit(step.value);
  expect_same_bytes(job.tensors(step.value), undisturbed(settings(step.value), step.value));
}

TEST_F(Conversation, AStopWithoutCheckpointWritesNone) {
  auto job = make_job(settings(kEndless));
  start_training(job, 2);
  job.tell_all(message::Stop{false});
  job.wait_all_ended();
  EXPECT_EQ(job.worker(0).exit_code(), 0);
  EXPECT_TRUE(job.worker(0).last<message::Finished>());
  EXPECT_FALSE(job.worker(0).last<message::Written>());
}

TEST_F(Conversation, AStopBeforeTheGoWritesTheFirstValues) {
  auto job = make_job(settings());
  job.start(2);
  job.assign(Generation{1});
  job.tell_all(message::Stop{true});
  job.wait_all_ended();
  EXPECT_EQ(job.worker(1).exit_code(), 0) << job.worker(1).output();
  EXPECT_EQ(job.worker(1).last<message::Finished>()->step, Step{0});
  job.commit(0);
  // Nothing that was restored is written a second time.
  job.start(1, Generation{2});
  job.assign(Generation{2}, 0);
  job.tell_all(message::Stop{true});
  job.wait_all_ended();
  EXPECT_EQ(job.worker(0).exit_code(), 0);
  EXPECT_FALSE(job.worker(0).last<message::Written>());
}

TEST_F(Conversation, AStopWithNothingInHandEndsTheWorker) {
  auto job = make_job(settings());
  job.start(1);
  job.tell_all(message::Stop{true});
  job.wait_all_ended();
  EXPECT_EQ(job.worker(0).exit_code(), 0);
  EXPECT_EQ(job.worker(0).last<message::Finished>()->step, Step{0});
}

TEST_F(Conversation, AFinishedCheckpointIsNotTrainedFurther) {
  auto job = make_job(settings(3));
  job.run(1);
  job.commit(3);
  job.run(2, 3);
  EXPECT_EQ(job.worker(0).exit_code(), 0);
  EXPECT_EQ(job.worker(0).last<message::Finished>()->step, Step{3});
  EXPECT_FALSE(job.worker(0).last<message::Written>());
}

TEST_F(Conversation, AWishForACheckpointIsMetOnceByAllEvenIfItReachesThemOneAfterTheOther) {
  auto job = make_job(settings(kEndless));
  start_training(job, 2);
  job.worker(0).tell(Generation{1}, message::CheckpointAt{});
  job.wait_until("both have written", [&] { return job.all_said<message::Written>(); });
  job.worker(1).tell(Generation{1}, message::CheckpointAt{});
  const auto later = job.worker(1).step() + 5;
  job.wait_until("some steps have passed", [&] { return job.worker(1).step() >= later; });
  EXPECT_EQ(job.worker(0).all<message::Written>().size(), 1u);
  EXPECT_EQ(job.worker(0).last<message::Written>()->step,
            job.worker(1).last<message::Written>()->step);
  job.tell_all(message::CheckpointAt{});
  job.wait_until("the second wish is met", [&] {
    return job.worker(0).all<message::Written>().size() == 2 &&
           job.worker(1).all<message::Written>().size() == 2;
  });
}

TEST_F(Conversation, AnAbortIsAnsweredWithParkedAndTheNextAssignmentIsTaken) {
  auto job = make_job(settings(kEndless));
  start_training(job, 2);
  const auto parked = [&](std::size_t times) {
    return [&job, times] {
      return job.worker(0).all<message::Parked>().size() == times &&
             job.worker(1).all<message::Parked>().size() == times;
    };
  };
  job.tell_all(message::Abort{"a host is lost"});
  job.wait_until("both have answered", parked(2));
  EXPECT_TRUE(job.worker(0).last<message::Parked>()->live_clean);
  EXPECT_GE(job.worker(0).last<message::Parked>()->live_step, Step{2});
  EXPECT_FALSE(job.worker(0).last<message::Failing>()) << "nobody here is to blame";
  // What belongs to the generation that is over changes nothing any more.
  job.use_trainer(settings(5).dump());
  job.assign(Generation{2});
  job.worker(0).tell(Generation{1}, message::Stop{false});
  job.go();
  job.wait_all_ended();
  EXPECT_EQ(job.worker(0).last<message::Finished>()->step, Step{5});
}

TEST_F(Conversation, AnAbortEndsTheWaitForARankThatNeverComes) {
  auto job = make_job(settings());
  job.start(2);
  job.worker(1).kill(SIGSTOP);
  job.send_assign(Generation{1});
  job.wait_until("rank 0 connects", [&] {
    const auto progress = job.worker(0).last<message::Progress>();
    return progress && progress->phase == "connect";
  });
  job.tell_all(message::Abort{"rank 1 hangs"});
  job.wait_until("rank 0 is parked",
                 [&] { return job.worker(0).all<message::Parked>().size() == 2; });
}

TEST_F(Conversation, AbortWhileWaitingForGoIsAnswered) {
  auto job = make_job(settings(3));
  job.start(2);
  job.assign(Generation{1});
  job.tell_all(message::Abort{"another host is lost"});
  job.wait_until("both are parked again", [&] {
    return job.worker(0).all<message::Parked>().size() == 2 &&
           job.worker(1).all<message::Parked>().size() == 2;
  });
  job.assign(Generation{3});
  job.go();
  job.wait_all_ended();
  EXPECT_EQ(job.worker(1).exit_code(), 0) << job.worker(1).output();
}

TEST_F(Conversation, ARankThatStandsStillIsSeenInTheOthersCollectives) {
  auto job = make_job(settings(kEndless));
  start_training(job, 2);
  job.worker(1).kill(SIGSTOP);
  std::uint64_t stuck_in = 0;
  job.wait_until("rank 0 stays in one collective", [&] {
    const auto progress = *job.worker(0).last<message::Progress>();
    const bool same = progress.entered && progress.sequence == stuck_in;
    stuck_in = progress.sequence;
    return same;
  });
  EXPECT_FALSE(job.worker(0).last<message::Failing>()) << "hangs are the supervisor's to judge";
}

TEST_F(Conversation, WithoutAnAgentTheWorkerEndsAtOnce) {
  auto job = make_job(settings(kEndless));
  start_training(job, 1);
  job.worker(0).close_socket();
  job.wait_all_ended();
  EXPECT_EQ(job.worker(0).exit_code(), kExitAgentGone) << job.worker(0).output();
}

TEST_F(Conversation, SigtermEndsItWithoutFurtherAdo) {
  auto job = make_job(settings(kEndless));
  start_training(job, 1);
  job.worker(0).kill(SIGTERM);
  job.wait_all_ended();
  EXPECT_EQ(job.worker(0).exit_signal(), SIGTERM);
}

TEST_F(Conversation, WrongDataIsAMistakeBeforeTheFirstStep) {
  const auto reason_for = [&](const std::filesystem::path& path,
                              FailingCategory category = FailingCategory::config_error) {
    auto trainer = settings();
    trainer["data"]["text"] = path.string();
    auto job = make_job(trainer, path.filename().string() + ".job");
    job.start(1);
    job.send_assign(Generation{1});
    const auto failing = failing_of(job);
    EXPECT_EQ(failing.category, category);
    return failing.reason;
  };
  EXPECT_THAT(reason_for(directory_.path() / "absent.txt", FailingCategory::user_error),
              HasSubstr("No such file"));
  checkpoint::write_file(directory_.path() / "empty.txt", "");
  EXPECT_THAT(reason_for(directory_.path() / "empty.txt"), HasSubstr("it has 0 bytes"));
  checkpoint::write_file(directory_.path() / "short.txt", std::string(16, 'x'));
  EXPECT_THAT(reason_for(directory_.path() / "short.txt"), HasSubstr("one sequence needs 17"));
  EXPECT_THAT(reason_for(directory_.path()), HasSubstr("no regular file"));
}

TEST_F(Conversation, AnIdOutsideTheVocabularyIsAMistakeWhicheverRankReadsIt) {
  std::string ids(40'000, '\1');
  for (const std::size_t place : {0u, 19'999u}) {
    auto wrong = ids;
    wrong[2 * place + 1] = '\2';  // 0x0201
    const auto path = (directory_.path() / (std::to_string(place) + ".bin")).string();
    checkpoint::write_file(path, wrong);
    auto trainer = settings();
    trainer["data"] = {{"tokens", path}};
    trainer["model"]["vocabulary"] = 0x0102;
    auto job = make_job(trainer, std::to_string(place));
    job.start(2);
    job.send_assign(Generation{1});
    const std::size_t reader = place == 0 ? 0 : 1;
    job.wait_until("the rank says what is wrong",
                   [&] { return job.worker(reader).last<message::Failing>().has_value(); });
    const auto failing = *job.worker(reader).last<message::Failing>();
    EXPECT_EQ(failing.category, FailingCategory::config_error);
    EXPECT_THAT(failing.reason,
                HasSubstr("id 513 at place " + std::to_string(place) + " of 20000"));
  }
}

TEST_F(Conversation, SettingsThatCannotBeAreConfigErrors) {
  auto trainer = settings();
  trainer["strategy"] = "zero";
  trainer["model"]["heads"] = 3;
  auto job = make_job(trainer);
  job.start(1);
  job.send_assign(Generation{1});
  const auto failing = failing_of(job);
  EXPECT_EQ(failing.category, FailingCategory::config_error);
  EXPECT_THAT(failing.reason, HasSubstr("strategy"));
  EXPECT_THAT(failing.reason, HasSubstr("multiple of model.heads")) << "all problems at once";
}

TEST_F(Conversation, ADirectoryThatCannotBeWrittenIsAStorageFailure) {
  auto job = make_job(settings(2));
  checkpoint::write_file(job.checkpoints(), "in the way");
  job.start(1);
  job.assign(Generation{1});
  job.go();
  EXPECT_EQ(failing_of(job).category, FailingCategory::storage);
}

TEST_F(Conversation, ACheckpointThatIsNotThereIsAStorageFailure) {
  auto job = make_job(settings(2));
  job.start(1);
  job.send_assign(Generation{1}, 800);
  const auto failing = failing_of(job);
  EXPECT_EQ(failing.category, FailingCategory::storage);
  EXPECT_THAT(failing.reason, HasSubstr("step-800"));
}

TEST_F(Conversation, AnotherTextThanThatOfTheCheckpointIsRefused) {
  auto job = make_job(settings(2));
  job.run(1);
  job.commit(2);
  checkpoint::write_file(text(), std::string(20'000, 'z'));
  job.start(1, Generation{2});
  job.send_assign(Generation{2}, 2);
  EXPECT_THAT(failing_of(job).reason, HasSubstr("is not the text"));
}

TEST_F(Conversation, OtherNumericsThanThoseOfTheCheckpointAreToldAndNothingStops) {
  auto job = make_job(settings(2));
  job.run(1);
  job.commit(2);
  job.use_trainer(settings(4).dump());
  job.run(1, 2);
  EXPECT_EQ(job.worker(0).last<message::Restored>()->differs, "") << "the same machine";
  const auto path = job.checkpoints() / "step-2" / "manifest.json";
  auto manifest = nlohmann::json::parse(checkpoint::read_file(path));
  EXPECT_THAT(manifest["numerics"].get<std::string>(),
              AllOf(HasSubstr("torch 2."), HasSubstr(", 1 thread")));
  manifest["numerics"] = "torch 1.0, 2 threads";
  checkpoint::write_file(path, manifest.dump());
  job.use_trainer(settings(6).dump());
  job.forget_all();
  job.run(1, 2);
  EXPECT_EQ(job.worker(0).exit_code(), 0) << job.worker(0).output();
  EXPECT_THAT(
      job.worker(0).last<message::Restored>()->differs,
      HasSubstr("step 2 was computed with torch 1.0, 2 threads, rank 0 goes on with torch"));
  EXPECT_THAT(job.worker(0).output(), HasSubstr("warning: step 2 was computed with torch 1.0"));
}

TEST_F(Conversation, ALossThatIsNoNumberIsReportedAsBadNumbers) {
  auto trainer = settings(kEndless);
  trainer["learning_rate"] = 1e20;
  trainer["warmup_steps"] = 0;
  trainer["weight_decay"] = 0;
  auto job = make_job(trainer);
  job.start(1);
  job.assign(Generation{1});
  job.go();
  const auto failing = failing_of(job);
  EXPECT_EQ(failing.category, FailingCategory::bad_numbers);
  EXPECT_THAT(failing.reason, HasSubstr("learning_rate"));
}

}  // namespace
}  // namespace dlaunch::trainer
