// The same weights, bit for bit, whatever the number of ranks and whatever happened on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/trainer/worker/worker_fixture.h"
#include "trainer/data/io/write_tokens.h"

namespace dlaunch::trainer {
namespace {

namespace message = protocol::worker;

class Exactness : public WorkerTest {
 protected:
  /// So many ranks do all steps, end well, and leave these tensors.
  void expect_of_ranks(std::uint32_t ranks, const nlohmann::json& trainer,
                       const std::map<std::string, std::string>& expected) {
    const auto name = trainer.at("strategy").get<std::string>() + "-" + std::to_string(ranks);
    SCOPED_TRACE(name);
    auto job = make_job(trainer, name);
    job.run(ranks);
    for (std::size_t i = 0; i < job.size(); ++i) {
      EXPECT_EQ(job.worker(i).exit_code(), 0) << job.worker(i).output();
    }
    job.commit(12);
    expect_same_bytes(job.tensors(12), expected);
  }
};

TEST_F(Exactness, OneTwoThreeAndFourRanksEndWithTheSameBytes) {
  const auto expected = undisturbed(settings(), 12);
  for (std::uint32_t ranks = 2; ranks <= 4; ++ranks) {
    expect_of_ranks(ranks, settings(), expected);
  }
}

TEST_F(Exactness, RanksThatShareTheStateEndWithTheSameBytes) {
  const auto expected = undisturbed(settings(), 12);
  auto trainer = settings();
  trainer["strategy"] = "fsdp";
  for (std::uint32_t ranks = 1; ranks <= 4; ++ranks) {
    trainer["activation_checkpointing"] = ranks % 2 == 0;
    trainer["prefetch"] = ranks < 3;
    trainer["check_collectives"] = ranks == 3;
    expect_of_ranks(ranks, trainer, expected);
  }
}

TEST_F(Exactness, CopiesSharedByAHostsRanksEndWithTheSameBytes) {
  const auto expected = undisturbed(settings(), 12);
  auto trainer = settings();
  trainer["strategy"] = "hsdp";
  for (const auto& [ranks, shard_size] : {std::pair{2u, 0u}, {3u, 1u}, {4u, 2u}}) {
    trainer["shard_size"] = shard_size;
    expect_of_ranks(ranks, trainer, expected);
  }
}

TEST_F(Exactness, SixAndEightRanksEndWithTheSameBytes) {
  const auto expected = undisturbed(settings(), 12);
  auto trainer = settings();
  expect_of_ranks(6, trainer, expected);
  trainer["strategy"] = "fsdp";
  expect_of_ranks(8, trainer, expected);
  trainer["strategy"] = "hsdp";
  for (const auto& [ranks, shard_size] : {std::pair{6u, 2u}, {8u, 4u}}) {
    trainer["shard_size"] = shard_size;
    expect_of_ranks(ranks, trainer, expected);
  }
}

TEST_F(Exactness, ProductsInBfloat16AreTheSameOnAllRanks) {
  auto trainer = settings();
  const auto single = undisturbed(trainer, 12);
  trainer["precision"] = "bf16";
  const auto expected = undisturbed(trainer, 12, "rounded");
  EXPECT_NE(expected, single);
  expect_of_ranks(3, trainer, expected);
  trainer["strategy"] = "fsdp";
  expect_of_ranks(2, trainer, expected);
}

TEST_F(Exactness, ARunGoesOnWithAnotherStrategyAndEndsWithTheSameBytes) {
  const auto expected = undisturbed(settings(12), 12);
  const auto with = [&](const char* strategy, std::uint64_t steps) {
    auto trainer = settings(steps);
    trainer["strategy"] = strategy;
    return trainer.dump();
  };
  auto job = make_job(settings(4));
  job.run(2);
  job.commit(4);
  job.use_trainer(with("fsdp", 8));
  job.run(3, 4);
  job.commit(8);
  auto copies = nlohmann::json::parse(with("hsdp", 10));
  copies["shard_size"] = 2;
  job.use_trainer(copies.dump());
  job.run(4, 8);
  job.commit(10);
  job.use_trainer(with("ddp", 12));
  job.run(1, 10);
  job.commit(12);
  expect_same_bytes(job.tensors(12), expected);
}

TEST_F(Exactness, ARunResumedAtAnotherNumberOfRanksEndsWithTheSameBytes) {
  const auto expected = undisturbed(settings(12), 12);
  auto job = make_job(settings(4));
  job.run(3);
  job.commit(4);
  job.use_trainer(settings(9).dump());
  job.run(1, 4);
  job.commit(9);
  job.use_trainer(settings(12).dump());
  job.run(2, 9);
  job.commit(12);
  expect_same_bytes(job.tensors(12), expected);
}

TEST_F(Exactness, AKilledRankCostsTimeAndNoBit) {
  auto trainer = settings(12);
  trainer["checkpoint_every_steps"] = 4;
  const auto expected = undisturbed(settings(12), 12);
  auto job = make_job(trainer);
  job.start(3);
  job.assign(Generation{1});
  job.go();
  job.wait_until("step 4 is on disk everywhere", [&] { return job.all_said<message::Written>(); });
  job.worker(1).kill(SIGKILL);
  job.wait_until("the killed rank is gone", [&] { return job.worker(1).ended(); });
  job.commit(4);
  job.forget_all();
  job.start(2, Generation{2});
  job.assign(Generation{2}, 4);
  job.go();
  job.wait_all_ended();
  job.commit(12);
  expect_same_bytes(job.tensors(12), expected);
}

TEST_F(Exactness, SurvivorsGoOnInTheirProcessesWithTheSameBytes) {
  auto trainer = settings(40);
  trainer["checkpoint_every_steps"] = 4;
  const auto expected = undisturbed(settings(40), 40);
  auto job = make_job(trainer);
  job.start(3);
  job.assign(Generation{1});
  job.go();
  job.wait_until("step 4 is on disk everywhere", [&] { return job.all_said<message::Written>(); });
  job.worker(1).kill(SIGKILL);
  job.wait_until("the survivors say who was lost", [&] {
    return job.worker(0).last<message::Failing>() && job.worker(2).last<message::Failing>();
  });
  for (const std::size_t survivor : {0u, 2u}) {
    const auto failing = *job.worker(survivor).last<message::Failing>();
    EXPECT_EQ(failing.category, message::FailingCategory::peer_lost);
    EXPECT_EQ(failing.suspect_rank, Rank{1}) << failing.reason;
    EXPECT_FALSE(job.worker(survivor).ended());
  }
  job.commit(4);
  job.forget(1);
  job.tell_all(message::Abort{"rank 1 was killed"});
  job.assign(Generation{2}, 4);
  job.go();
  job.wait_all_ended();
  EXPECT_EQ(job.worker(1).exit_code(), 0) << job.worker(1).output();
  job.commit(40);
  expect_same_bytes(job.tensors(40), expected);
}

TEST_F(Exactness, ATokenFileOfTheTextsBytesGivesTheBytesOfTheText) {
  const auto expected = undisturbed(settings(), 12);
  const auto tokens = (directory_.path() / "text.bin").string();
  ASSERT_TRUE(write_tokens({text().string(), "", 0}, tokens));
  auto trainer = settings();
  trainer["data"] = {{"tokens", tokens}};
  expect_of_ranks(2, trainer, expected);
}

TEST_F(Exactness, ValidationChangesNoByte) {
  auto trainer = settings();
  trainer["data"]["validation"] = 0.2;
  const auto expected = undisturbed(trainer, 12);
  trainer["validate_every_steps"] = 5;
  expect_of_ranks(1, trainer, expected);
  expect_of_ranks(3, trainer, expected);
  trainer["strategy"] = "fsdp";
  expect_of_ranks(2, trainer, expected);
}

TEST_F(Exactness, ACosineGoesOnAtAnotherNumberOfRanksWithTheSameBytes) {
  auto trainer = settings(12);
  trainer["schedule"] = "cosine";
  trainer["decay_steps"] = 10;
  trainer["min_learning_rate"] = 1e-3;
  const auto expected = undisturbed(trainer, 12);
  trainer["steps"] = 6;
  auto job = make_job(trainer);
  job.run(2);
  job.commit(6);
  trainer["steps"] = 12;
  job.use_trainer(trainer.dump());
  job.run(1, 6);
  job.commit(12);
  expect_same_bytes(job.tensors(12), expected);
}

TEST_F(Exactness, TwoThreadsPerRankGiveTheSameBytesOnAnyNumberOfRanks) {
  auto trainer = settings(4);
  trainer["threads"] = 2;
  const auto expected = undisturbed(trainer, 4);
  auto job = make_job(trainer);
  job.run(2);
  job.commit(4);
  expect_same_bytes(job.tensors(4), expected);
}

}  // namespace
}  // namespace dlaunch::trainer
