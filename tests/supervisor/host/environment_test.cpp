#include "supervisor/host/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlaunch::supervisor::host {
namespace {

using testing::ElementsAre;

Place place() {
  Place place;
  place.job_id = "ddp-7";
  place.host = "gpu02";
  place.generation = Generation{3};
  place.rank = Rank{5};
  place.local_rank = 1;
  place.prepare.set_world_size(8);
  place.prepare.set_first_rank(4);
  place.prepare.set_workers(4);
  place.prepare.set_host_index(1);
  place.prepare.set_hosts(2);
  place.master_address = "10.1.0.1";
  place.master_port = 29'600;
  place.data_address = "10.1.0.2";
  place.data_interface = "ib0";
  return place;
}

TEST(Environment, HasEveryNameThatTorchrunSets) {
  protocol::JobSpec job;
  job.set_restarts_max(10);
  job.set_checkpoint_directory("/data/ckpt");
  const auto environment = make_environment(job, place());
  const std::map<std::string, std::string> expected = {
      {"RANK", "5"},
      {"LOCAL_RANK", "1"},
      {"GROUP_RANK", "1"},
      {"ROLE_RANK", "5"},
      {"ROLE_NAME", "default"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"WORLD_SIZE", "8"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_WORLD_SIZE", "8"},
      {"MASTER_ADDR", "10.1.0.1"},
      {"MASTER_PORT", "29600"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "10"},
      {"TORCHELASTIC_RUN_ID", "ddp-7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"DLAUNCH_JOB", "ddp-7"},
      {"DLAUNCH_HOST", "gpu02"},
      {"DLAUNCH_GENERATION", "3"},
      {"DLAUNCH_DATA_ADDRESS", "10.1.0.2"},
      {"DLAUNCH_CHECKPOINT_DIR", "/data/ckpt"},
  };
  EXPECT_EQ(environment, expected);
}

TEST(Environment, KeepsWhatTheUserSetWhereTorchrunWould) {
  protocol::JobSpec job;
  auto& own = *job.mutable_environment();
  own["OMP_NUM_THREADS"] = "6";
  own["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "3";
  own["GLOO_SOCKET_IFNAME"] = "eth7";
  own["RANK"] = "99";
  own["DLAUNCH_JOB"] = "another";
  job.set_set_socket_interfaces(true);
  const auto environment = make_environment(job, place());
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "6");
  EXPECT_EQ(environment.at("TORCH_NCCL_ASYNC_ERROR_HANDLING"), "3");
  EXPECT_EQ(environment.at("GLOO_SOCKET_IFNAME"), "eth7");
  EXPECT_EQ(environment.at("NCCL_SOCKET_IFNAME"), "ib0");
  EXPECT_EQ(environment.at("RANK"), "5");
  EXPECT_EQ(environment.at("DLAUNCH_JOB"), "ddp-7") << "the sweep finds processes by it";
}

TEST(Environment, LeavesThreadsAloneForOneWorkerAHost) {
  auto alone = place();
  alone.prepare.set_workers(1);
  EXPECT_FALSE(make_environment({}, alone).contains("OMP_NUM_THREADS"));
}

TEST(Arguments, AreReplacedWordByWordAndNeverSplit) {
  protocol::JobSpec job;
  job.add_wrap("apptainer");
  job.add_command("train.py");
  job.add_command("--name=${host}/${rank}-${local_rank} of ${world_size}");
  job.add_command("${unknown} $HOME ${");
  job.add_command("g${generation}${job}");
  EXPECT_THAT(make_argv(job, place()), ElementsAre("apptainer", "train.py", "--name=gpu02/5-1 of 8",
                                                   "${unknown} $HOME ${", "g3ddp-7"));
}

}  // namespace
}  // namespace dlaunch::supervisor::host
