// A trainer's generation with real processes: the worker socket from hello to the end.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/io/files.h"
#include "tests/supervisor/host/io/field.h"

namespace dlaunch::supervisor::host {
namespace {

using protocol::AgentFrame;

protocol::JobSpec trainer_job(const Field& field) {
  protocol::JobSpec spec;
  spec.set_trainer(true);
  spec.add_command(DLAUNCH_SCRIPTED_WORKER);
  spec.set_directory("/");
  spec.set_checkpoint_directory(field.directory() + "/checkpoints");
  spec.set_trainer_settings("{}");
  auto* check = spec.add_checks();
  check->set_path(DLAUNCH_SCRIPTED_WORKER);
  check->set_kind(protocol::PathCheck::EXECUTABLE);
  check->set_hash(true);
  check->set_check("trainer");
  return spec;
}

/// Two ranks that have restored `restore_step`, if there is one, and train.
void train(Field& field, std::uint64_t generation, std::optional<std::uint64_t> restore_step) {
  field.prepare(generation, 2);
  ASSERT_TRUE(field.comes(AgentFrame::kPrepared, generation)) << field.log();
  const auto endpoints = field.last(AgentFrame::kPrepared)->prepared().endpoints();
  ASSERT_EQ(endpoints.size(), 2);
  EXPECT_EQ(endpoints[1].address(), "127.0.0.1");
  EXPECT_EQ(endpoints[1].port(), 4711U);
  field.send(generation, [&](auto& frame) {
    auto& assign = *frame.mutable_assign();
    field.assign_as_prepared(assign);
    assign.set_token("token");
    if (restore_step) assign.set_restore_step(*restore_step);
  });
  ASSERT_TRUE(field.comes(AgentFrame::kRestored, generation)) << field.log();
  EXPECT_EQ(field.last(AgentFrame::kRestored)->restored().step(), restore_step.value_or(0));
  EXPECT_TRUE(field.comes(AgentFrame::kConnected, generation));
  field.send(generation, [](auto& frame) { frame.mutable_go(); });
}

TEST(Trainer, TrainsAndEndsAtTheStepThatItIsToldTo) {
  Field field;
  field.bring_up(trainer_job(field));
  const auto& ready = field.last(AgentFrame::kReady)->ready();
  ASSERT_EQ(ready.files_size(), 1);
  EXPECT_EQ(ready.files(0).hash().size(), 32U);
  ASSERT_NO_FATAL_FAILURE(train(field, 1, std::nullopt));
  EXPECT_TRUE(field.until([&] {
    const auto& beat = field.last(AgentFrame::kHeartbeat)->heartbeat();
    return beat.workers_size() == 2 && beat.workers(1).step() == 1 &&
           beat.workers(1).phase() == "forward" && beat.workers(1).loss() == 3.5;
  }));
  field.send(1, [](auto& frame) { frame.mutable_stop_workers()->set_checkpoint(true); });
  const auto ended = [&] {
    std::size_t count = 0;
    for (const auto& frame : field.frames) {
      if (!frame.evidence().has_worker_exited()) continue;
      EXPECT_TRUE(frame.evidence().worker_exited().finished());
      EXPECT_EQ(frame.evidence().worker_exited().code(), 0);
      ++count;
    }
    return count;
  };
  EXPECT_TRUE(field.until([&] { return ended() == 2; })) << field.log();
}

TEST(Trainer, IsAssignedToAJobOfThousandsOfRanks) {
  Field field;
  field.bring_up(trainer_job(field));
  field.send(1, [](auto& frame) {
    auto& prepare = *frame.mutable_prepare();
    prepare.set_world_size(4096);
    prepare.set_workers(2);
    prepare.set_hosts(2048);
  });
  ASSERT_TRUE(field.comes(AgentFrame::kPrepared, 1)) << field.log();
  field.send(1, [](auto& frame) {
    auto& assign = *frame.mutable_assign();
    assign.set_token("token");
    std::vector<protocol::Listening> ranks;
    for (std::uint32_t rank = 0; rank < 4096; ++rank) {
      ranks.push_back({"fd00:1234:5678:9abc:def0:1234:5678:" + std::to_string(rank), 60'000});
    }
    *assign.mutable_endpoints() = protocol::pack_endpoints(ranks);
  });
  ASSERT_TRUE(field.until([&] {
    return field.last(AgentFrame::kRestored) != nullptr ||
           field.last(AgentFrame::kEvidence) != nullptr;
  })) << field.log();
  EXPECT_NE(field.last(AgentFrame::kRestored), nullptr)
      << field.last(AgentFrame::kEvidence)->DebugString();
}

TEST(Trainer, FailsAloudWhenItCannotBeToldWhatToDo) {
  Field field;
  auto spec = trainer_job(field);
  spec.set_trainer_settings("[\"no object\"]");
  field.bring_up(spec);
  field.prepare(1, 1);
  ASSERT_TRUE(field.comes(AgentFrame::kPrepared, 1)) << field.log();
  field.send(1, [](auto& frame) { frame.mutable_assign()->set_token("token"); });
  ASSERT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
  const auto& failing = field.last(AgentFrame::kEvidence)->evidence().worker_failing();
  EXPECT_EQ(failing.category(), "config_error");
  EXPECT_NE(failing.reason().find("no JSON object"), std::string::npos) << failing.reason();
}

TEST(Trainer, IsStartedAnewAfterAnAbort) {
  Field field;
  field.bring_up(trainer_job(field));
  ASSERT_NO_FATAL_FAILURE(train(field, 1, std::nullopt));
  const auto began = monotonic_now();
  field.send(1, [](auto& frame) { frame.mutable_abort()->set_reason("test"); });
  ASSERT_TRUE(field.comes(AgentFrame::kAbortAcknowledged, 1));
  EXPECT_LT(monotonic_now() - began, 1s);
  ASSERT_TRUE(field.comes(AgentFrame::kWorkersGone, 1));
  ASSERT_NO_FATAL_FAILURE(train(field, 2, 40));
  EXPECT_EQ(field.last(AgentFrame::kEvidence), nullptr) << "an ordered end is no evidence";
}

TEST(Trainer, ItsCheckpointsAreInspectedAndCommittedByTheAgent) {
  Field field;
  field.bring_up(trainer_job(field));
  field.send(1, [](auto& frame) { frame.mutable_inspect_checkpoints(); });
  ASSERT_TRUE(field.comes(AgentFrame::kCheckpointsFound, 1)) << field.log();
  EXPECT_EQ(field.last(AgentFrame::kCheckpointsFound)->checkpoints_found().error(), "");
  const auto directory = field.directory() + "/checkpoints";
  EXPECT_TRUE(std::filesystem::exists(directory + "/.dlaunch-lock"));
  std::filesystem::create_directory(directory + "/step-5.g1.partial");
  ASSERT_TRUE(replace_file(directory + "/step-5.g1.partial/manifest.json", "{}"));
  field.send(1, [](auto& frame) { frame.mutable_commit()->set_step(5); });
  ASSERT_TRUE(field.comes(AgentFrame::kCommitted, 1)) << field.log();
  EXPECT_EQ(field.last(AgentFrame::kCommitted)->committed().error(), "");
  EXPECT_TRUE(std::filesystem::exists(directory + "/step-5/manifest.json"));
  field.send(0, [](auto& frame) { frame.mutable_leave(); });
  ASSERT_TRUE(field.comes(AgentFrame::kLeft, 0));
  EXPECT_TRUE(field.until([&] { return !lives(field.holder()); }));
  EXPECT_FALSE(std::filesystem::exists(directory + "/.dlaunch-lock"));
}

TEST(Trainer, AnAgentLeavesThoughTheCheckpointDirectoryHangs) {
  Field field;
  field.bring_up(trainer_job(field));
  field.send(1, [](auto& frame) { frame.mutable_inspect_checkpoints(); });
  ASSERT_TRUE(field.comes(AgentFrame::kCheckpointsFound, 1)) << field.log();
  const auto lock = field.directory() + "/checkpoints/.dlaunch-lock";
  ASSERT_TRUE(field.until([&] { return std::filesystem::exists(lock); }));
  // Whoever opens it to read waits for a writer, as for a server that is gone.
  std::filesystem::remove(lock);
  ASSERT_EQ(::mkfifo(lock.c_str(), 0600), 0);
  const auto agent = field.agent();
  field.send(0, [](auto& frame) { frame.mutable_leave(); });
  ASSERT_TRUE(field.comes(AgentFrame::kLeft, 0));
  EXPECT_TRUE(field.until([&] { return !lives(agent) && !lives(field.holder()); })) << field.log();
}

TEST(Trainer, TrainsOnAHostThatHasNothingInstalled) {
  if (!kAgentIsStatic) GTEST_SKIP() << "this build is for sanitizers";
  if (::geteuid() != 0) GTEST_SKIP() << "only root may make such a host";
  Field field;
  const auto root = field.directory() + "/bare";
  for (const auto* name : {"/proc", "/dev", "/tmp"}) {
    std::filesystem::create_directories(root + name);
  }
  std::filesystem::copy_file(DLAUNCH_AGENT, root + "/dlaunch-agent");
  std::filesystem::copy_file(DLAUNCH_SCRIPTED_WORKER, root + "/worker");
  // In a mount namespace of its own: nothing is left mounted, however the test ends.
  field.plant_script = "exec unshare -m sh -c 'mount -t proc proc " + root +
                       "/proc && mount --bind /dev " + root + "/dev && exec chroot " + root +
                       " /dlaunch-agent plant --job " + field.job() + " --host here1'";
  protocol::JobSpec spec;
  spec.set_trainer(true);
  spec.add_command("/worker");
  spec.set_directory("/");
  spec.set_trainer_settings("{}");
  field.bring_up(spec, {{"scratch", "/tmp/dlaunch-0"}});
  EXPECT_EQ(field.last(AgentFrame::kReady)->ready().failures_size(), 0);
  ASSERT_NO_FATAL_FAILURE(train(field, 1, std::nullopt));
  field.send(0, [](auto& frame) { frame.mutable_leave(); });
  EXPECT_TRUE(field.comes(AgentFrame::kLeft, 0));
}

TEST(Trainer, IsTheSameThroughAReconnect) {
  Field field;
  field.bring_up(trainer_job(field));
  ASSERT_NO_FATAL_FAILURE(train(field, 1, std::nullopt));
  ASSERT_TRUE(field.until([&] {
    const auto& beat = field.last(AgentFrame::kHeartbeat)->heartbeat();
    return beat.workers_size() == 2 && beat.workers(1).step() == 1;
  })) << "the order to go is not lost with the connection";
  field.cut();
  ASSERT_TRUE(field.until([&] {
    const auto* hello = field.last(AgentFrame::kHello);
    return hello->hello().workers_size() == 2 && hello->hello().phase() == protocol::HOST_TRAINING;
  })) << field.log();
  EXPECT_EQ(field.last(AgentFrame::kHello)->hello().workers(1).generation(), 1U);
  EXPECT_TRUE(field.last(AgentFrame::kHello)->hello().workers(1).alive());
  field.send(1, [](auto& frame) { frame.mutable_stop_workers()->set_checkpoint(true); });
  EXPECT_TRUE(field.comes(AgentFrame::kEvidence, 1)) << field.log();
}

}  // namespace
}  // namespace dlaunch::supervisor::host
