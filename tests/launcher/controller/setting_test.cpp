// From files to settings: what "auto" becomes.
#include "launcher/controller/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dlaunch::launcher::controller {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class SettingTest : public testing::Test {
 protected:
  SettingTest() {
    input_.id = "kjv-1";
    input_.program_folder = "/opt/dlaunch/bin";
    input_.train.directory = "/home/ann";
    add_hosts(2);
    files_.train.trainer.emplace();
    files_.train.trainer->text = "/home/ann/kjv.txt";
  }
  void add_hosts(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto& host = files_.hosts.hosts.emplace_back();
      host.name = host.address = "gpu" + std::to_string(files_.hosts.hosts.size());
    }
  }
  void use_program() {
    files_.train.trainer.reset();
    files_.train.program.emplace();
    files_.train.program->command = {"python3", "train.py"};
    files_.train.program->directory = "/home/ann/exp1";
    files_.train.program->inherit = {"PATH"};
    files_.train.program->environment = {{"NCCL_DEBUG", "WARN"}};
  }
  Setting make() {
    auto made = make_setting(input_, files_, {Incarnation{3}, {}, "/usr/bin/python3"});
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }

  JobInput input_;
  JobFiles files_;
};

TEST_F(SettingTest, ATrainerGetsShortLimitsAndAProgramLongOnes) {
  const auto trainer = make();
  EXPECT_EQ(trainer.rendezvous.lost_after, 600ms);
  EXPECT_EQ(trainer.heartbeat, 100ms);
  EXPECT_EQ(trainer.job.lease, 60s);
  EXPECT_EQ(trainer.job.hang_floor, 60s);
  use_program();
  const auto program = make();
  EXPECT_EQ(program.rendezvous.lost_after, 5s);
  EXPECT_EQ(program.job.lease, 10s);
  EXPECT_EQ(program.job.hang_floor, 10min);
}

TEST_F(SettingTest, ALinkIsRiddenOutForASecondOrAsLongAsTheUserSays) {
  EXPECT_EQ(make().job.link_window, 1s);
  files_.train.health.link_window = 3s;
  EXPECT_EQ(make().job.link_window, 3s);
}

TEST_F(SettingTest, TheHeartbeatGrowsWithTheHostsButNotBeyondAFifthOfLostAfter) {
  add_hosts(4398);
  EXPECT_EQ(make().heartbeat, 110ms);
  add_hosts(40'000);
  EXPECT_EQ(make().heartbeat, 120ms);
}

TEST_F(SettingTest, TheWelcomeSaysWhatAWorkerIs) {
  use_program();
  input_.environment = {{"PATH", "/bin"}, {"AWS_SECRET", "x"}};
  const auto welcome = make().welcome;
  EXPECT_EQ(welcome.job().command(1), "train.py");
  EXPECT_EQ(welcome.job().environment().at("NCCL_DEBUG"), "WARN");
  EXPECT_EQ(welcome.job().environment().at("PATH"), "/bin");
  EXPECT_FALSE(welcome.job().environment().contains("AWS_SECRET"));
  ASSERT_EQ(welcome.job().checks_size(), 2);
  EXPECT_EQ(welcome.job().checks(1).path(), "/usr/bin/python3");
  EXPECT_TRUE(welcome.job().checks(1).hash());
}

TEST_F(SettingTest, ATrainerIsToldItsSettingsAndItsDataIsCompared) {
  files_.train.trainer->logical_batches = 8;
  files_.train.checkpoint.every = config::EverySteps{20};
  const auto setting = make();
  const auto told = json::parse(setting.job.trainer_settings);
  EXPECT_EQ(told.at("logical_batches"), 8);
  EXPECT_EQ(told.at("checkpoint_every_steps"), 20);
  EXPECT_EQ(told.at("data").at("text"), "/home/ann/kjv.txt");
  EXPECT_EQ(told.at("model").at("width"), 128);
  EXPECT_EQ(setting.welcome.job().command(0), "/opt/dlaunch/bin/dlaunch-trainer");
  EXPECT_EQ(setting.welcome.job().checks_size(), 2);
}

TEST_F(SettingTest, AFileOfTokensIsComparedWithItsIndex) {
  auto& trainer = *files_.train.trainer;
  trainer.text.clear();
  trainer.tokens = "/data/x.bin";
  trainer.model.vocabulary = 50'257;
  const auto plain = make();
  const auto told = json::parse(plain.job.trainer_settings);
  EXPECT_EQ(told.at("data"), (json{{"tokens", "/data/x.bin"}, {"validation", 0.0}}));
  EXPECT_EQ(told.at("model").at("vocabulary"), 50'257);
  EXPECT_EQ(plain.welcome.job().checks(1).path(), "/data/x.bin");
  trainer.tokens = "/data/x.idx";
  const auto indexed = make().welcome;
  ASSERT_EQ(indexed.job().checks_size(), 3);
  EXPECT_EQ(indexed.job().checks(1).path(), "/data/x.bin") << "its hash goes into checkpoints";
  EXPECT_EQ(indexed.job().checks(2).path(), "/data/x.idx");
  EXPECT_EQ(indexed.job().checks(2).check(), "data");
}

TEST_F(SettingTest, ACosineEndsWithTheStepsUnlessItIsSaid) {
  auto& trainer = *files_.train.trainer;
  EXPECT_FALSE(json::parse(make().job.trainer_settings).contains("decay_steps"));
  trainer.schedule = "cosine";
  EXPECT_EQ(json::parse(make().job.trainer_settings).at("decay_steps"), 2000);
  trainer.decay_steps = 500;
  EXPECT_EQ(json::parse(make().job.trainer_settings).at("decay_steps"), 500);
}

TEST_F(SettingTest, LogicalBatchesAreLeftToTheStartUnlessTheyAreSaid) {
  for (auto& host : files_.hosts.hosts) host.workers = 8;
  const auto left = make();
  EXPECT_FALSE(json::parse(left.job.trainer_settings).contains("logical_batches"));
  EXPECT_EQ(left.job.logical_batches_min, 16U);
  files_.train.trainer->logical_batches = 32;
  const auto said = make();
  EXPECT_EQ(json::parse(said.job.trainer_settings).at("logical_batches"), 32);
  EXPECT_EQ(said.job.logical_batches_min, 0U);
}

TEST_F(SettingTest, HostsDefaultToAllThatAreNotSpares) {
  add_hosts(1);
  files_.hosts.hosts[2].spare = true;
  const auto setting = make();
  EXPECT_EQ(setting.rendezvous.hosts_min, 2U);
  EXPECT_EQ(setting.rendezvous.hosts_max, 2U);
  EXPECT_TRUE(setting.rendezvous.hosts[2].spare);
}

TEST_F(SettingTest, AMinimumAboveTheHostsIsRefusedInWords) {
  files_.train.job.hosts_min = 3;
  files_.train.job.hosts_max = 4;
  const auto made = make_setting(input_, files_, {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("at least 3 hosts"));
}

TEST_F(SettingTest, HostsComeInWholeCopiesOfASharedState) {
  add_hosts(4);
  for (auto& host : files_.hosts.hosts) host.workers = 2;
  files_.train.trainer->strategy = "hsdp";
  EXPECT_EQ(make().rendezvous.hosts_step, 1U) << "each host has a copy";
  files_.train.trainer->shard_size = 4;
  EXPECT_EQ(make().rendezvous.hosts_step, 2U);
  files_.train.job.hosts_step = 3;
  EXPECT_EQ(make().rendezvous.hosts_step, 6U);
  files_.train.trainer->shard_size = 8;
  files_.train.job.hosts_step = 1;
  const auto made = make_setting(input_, files_, {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().text(), HasSubstr("in multiples of 4, and this job needs at least 6"));
  files_.train.job.hosts_min = 4;
  files_.train.job.hosts_max = 7;
  EXPECT_EQ(make().rendezvous.hosts_step, 4U) << "two of the six wait";
  files_.hosts.hosts[1].workers = 8;
  EXPECT_EQ(make().rendezvous.hosts_step, 1U) << "what a copy is cannot be said";
}

TEST_F(SettingTest, AHostsOwnWorkersAndTrainerGoIntoItsWelcome) {
  files_.hosts.hosts[1].workers = 4;
  files_.hosts.hosts[1].trainer = "/other/dlaunch-trainer";
  const auto setting = make();
  EXPECT_EQ(welcome_for(setting, HostId{0}).job().workers(), 0U);
  const auto other = welcome_for(setting, HostId{1}).job();
  EXPECT_EQ(other.workers(), 4U);
  EXPECT_EQ(other.command(0), "/other/dlaunch-trainer");
  EXPECT_EQ(other.checks(0).path(), "/other/dlaunch-trainer");
}

TEST_F(SettingTest, TheInputSurvivesItsWayThroughTheStateDirectory) {
  input_.train_text = "[job]\nname = \"x\"\n";
  input_.environment = {{"PATH", "/bin"}};
  input_.fresh = true;
  input_.train.set = {"job.name=y"};
  const auto back = job_input_from_json(to_json(input_));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(to_json(*back), to_json(input_));
  EXPECT_FALSE(job_input_from_json("{}"));
  EXPECT_FALSE(job_input_from_json("x"));
}

}  // namespace
}  // namespace dlaunch::launcher::controller
