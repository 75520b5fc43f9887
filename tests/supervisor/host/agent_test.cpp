// How a host's agent obeys: start, join, abort, stop, and what it drops.
#include "supervisor/host/agent.h"

#include <gtest/gtest.h>

#include "tests/supervisor/host/machine.h"

namespace dlaunch::supervisor::host {
namespace {

using protocol::AgentFrame;

TEST(Agent, EndsWhatAnAgentBeforeItLeftBeforeAnythingElse) {
  Machine machine;
  machine.put(ConnectionDown{"refused"});
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
}

TEST(Agent, SaysHelloFirstAndChecksItselfOnceItIsWelcome) {
  Machine machine;
  machine.put(ConnectionUp{});
  const auto hello = machine.only(AgentFrame::kHello);
  EXPECT_EQ(hello.hello().name(), "gpu02");
  EXPECT_EQ(hello.hello().protocol(), protocol::kProtocolVersion);
  EXPECT_EQ(hello.hello().agent(), 7U);
  EXPECT_EQ(hello.host(), 1U);
  EXPECT_EQ(hello.incarnation(), 0U);
  EXPECT_TRUE(machine.all<CheckSelf>().empty());
  machine.welcome();
  EXPECT_EQ(machine.all<CheckSelf>().size(), 1U);
  SelfChecked checked;
  checked.ready.mutable_facts()->set_workers(2);
  machine.put(checked);
  EXPECT_EQ(machine.only(AgentFrame::kReady).ready().facts().workers(), 2U);
}

TEST(Agent, BeatsAsOftenAsItIsTold) {
  Machine machine;
  machine.make_ready();
  machine.pass(1s);
  EXPECT_EQ(machine.count(AgentFrame::kHeartbeat), 10U);
}

TEST(Agent, BringsATrainersWorkersUpToTheirFirstStep) {
  Machine machine;
  machine.make_ready();
  machine.prepare(1);
  const auto starts = machine.all<StartWorker>();
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1].rank, Rank{3});
  EXPECT_EQ(starts[1].local_rank, 1U);
  EXPECT_EQ(starts[1].argv, std::vector<std::string>{"/opt/trainer"});
  EXPECT_EQ(starts[1].environment.at("RANK"), "3");
  machine.started(2, 1);
  machine.started(3, 1);
  machine.say(2, 1, protocol::worker::Ready{"10.0.0.2", 7002});
  EXPECT_EQ(machine.count(AgentFrame::kPrepared), 0U) << "rank 3 is not ready";
  machine.say(3, 1, protocol::worker::Ready{"10.0.0.2", 7003});
  const auto prepared = machine.only(AgentFrame::kPrepared).prepared();
  ASSERT_EQ(prepared.endpoints_size(), 2);
  EXPECT_EQ(prepared.endpoints(1).rank(), 3U);
  EXPECT_EQ(prepared.endpoints(1).port(), 7003U);

  machine.assign(1);
  const auto told = machine.all<TellWorker>();
  ASSERT_EQ(told.size(), 2U);
  const auto& assign = std::get<protocol::worker::Assign>(told[1].message.body);
  EXPECT_EQ(assign.rank, Rank{3});
  EXPECT_EQ(assign.token, "01ab");
  ASSERT_TRUE(told[1].endpoints);
  EXPECT_EQ(told[1].endpoints->ranks, Machine::assigned_ranks());
  EXPECT_EQ(told[0].endpoints, told[1].endpoints) << "one list for both";
  EXPECT_EQ(assign.restore->directory, "/data/checkpoints/step-800");
  EXPECT_EQ(assign.trainer, R"({"steps":10})");
  machine.say(2, 1, protocol::worker::Connected{});
  machine.say(3, 1, protocol::worker::Connected{});
  machine.say(2, 1, protocol::worker::Restored{Step{800}});
  EXPECT_EQ(machine.count(AgentFrame::kRestored), 0U);
  machine.say(3, 1, protocol::worker::Restored{Step{800}});
  EXPECT_EQ(machine.count(AgentFrame::kConnected), 1U);
  EXPECT_EQ(machine.only(AgentFrame::kRestored).restored().step(), 800U);
  (void)machine.take();
  machine.go(1);
  EXPECT_EQ(machine.all<TellWorker>().size(), 2U);
}

TEST(Agent, TakesChangesOfTheListThatItHoldsAndAsksForAllWhereItHoldsAnother) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  machine.killed(2, 1);
  machine.killed(3, 1);
  machine.put(AllGone{});
  machine.prepare(2);
  for (const std::uint32_t rank : {2U, 3U}) {
    machine.started(rank, 2);
    machine.say(rank, 2, protocol::worker::Ready{"10.0.0.2", 7000});
  }
  EXPECT_EQ(machine.only(AgentFrame::kPrepared).prepared().held(), 1U);
  (void)machine.take();

  const std::vector<protocol::Listening> ranks = {
      {"10.0.0.1", 5000}, {"10.0.0.1", 5001}, {"10.0.0.2", 7000}, {"10.0.0.2", 7000}};
  auto changes = protocol::pack_endpoints(ranks, {Generation{1}, ranks});
  changes.set_base(7);
  const auto assign = [&] {
    auto frame = machine.order(2);
    *frame.mutable_assign()->mutable_endpoints() = changes;
    machine.put(FromController{frame});
  };
  assign();
  EXPECT_EQ(machine.only(AgentFrame::kPrepared).prepared().held(), 1U) << "this is not that list";
  EXPECT_TRUE(machine.all<TellWorker>().empty());
  (void)machine.take();

  changes = protocol::pack_endpoints(ranks, {Generation{1}, Machine::assigned_ranks()});
  EXPECT_EQ(changes.ports().size(), 4U) << "two ports are new";
  assign();
  auto told = machine.all<TellWorker>();
  ASSERT_EQ(told.size(), 2U);
  add_endpoints(told[0]);
  const auto& line = std::get<protocol::worker::Assign>(told[0].message.body);
  ASSERT_EQ(line.endpoints.size(), 4U);
  EXPECT_EQ(line.endpoints[1].port, 5001U);
  EXPECT_EQ(line.endpoints[3].rank, Rank{3});
  EXPECT_EQ(line.endpoints[3].address, "10.0.0.2");
  EXPECT_EQ(line.endpoints[3].port, 7000U);
}

TEST(Agent, SaysThatAnAssignmentCannotBeRead) {
  Machine machine;
  machine.make_ready();
  machine.prepare(1);
  for (const std::uint32_t rank : {2U, 3U}) {
    machine.started(rank, 1);
    machine.say(rank, 1, protocol::worker::Ready{"10.0.0.2", 7000});
  }
  auto frame = machine.order(1);
  frame.mutable_assign()->mutable_endpoints()->add_ipv4(1);
  machine.put(FromController{frame});
  const auto evidence = machine.only(AgentFrame::kEvidence).evidence();
  EXPECT_EQ(evidence.finding().kind(), "spawn_failed");
  EXPECT_NE(evidence.finding().sentence().find("endpoints of all ranks"), std::string::npos);
}

TEST(Agent, StartsAProgramWithTheAddressOfRankZero) {
  Machine machine(false);
  machine.make_ready();
  machine.prepare(3);
  EXPECT_TRUE(machine.all<StartWorker>().empty()) << "its port is not known";
  EXPECT_EQ(machine.only(AgentFrame::kPrepared).prepared().endpoints_size(), 0);
  machine.assign(3);
  const auto starts = machine.all<StartWorker>();
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].environment.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(starts[0].environment.at("MASTER_PORT"), "5000");
  EXPECT_EQ(starts[0].environment.at("TORCHELASTIC_RESTART_COUNT"), "2");
  machine.started(2, 3);
  EXPECT_EQ(machine.count(AgentFrame::kConnected), 0U);
  machine.started(3, 3);
  EXPECT_EQ(machine.count(AgentFrame::kConnected), 1U);
  EXPECT_EQ(machine.count(AgentFrame::kRestored), 1U);
}

TEST(Agent, PicksAFreshPortWhereRankZeroOfAProgramRuns) {
  Machine machine(false);
  machine.make_ready();
  machine.prepare(1, 0);
  ASSERT_EQ(machine.all<PickPort>().size(), 1U);
  EXPECT_EQ(machine.all<PickPort>()[0].first, 29'600U);
  EXPECT_EQ(machine.all<PickPort>()[0].last, 29'899U);
  machine.put(PortPicked{Generation{1}, 40'001});
  const auto prepared = machine.only(AgentFrame::kPrepared).prepared();
  ASSERT_EQ(prepared.endpoints_size(), 1);
  EXPECT_EQ(prepared.endpoints(0).address(), "10.0.0.2");
  EXPECT_EQ(prepared.endpoints(0).port(), 40'001U);
}

TEST(Agent, AcknowledgesAnAbortBeforeItsWorkersAreGone) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  const auto said = machine.take();
  ASSERT_EQ(said.size(), 2U) << "a worker that is told would end by itself";
  EXPECT_TRUE(std::get<Send>(said[0]).frame.has_abort_acknowledged());
  EXPECT_TRUE(std::holds_alternative<KillAll>(said.back()));
  machine.killed(2, 1);
  machine.killed(3, 1);
  EXPECT_EQ(machine.count(AgentFrame::kEvidence), 0U) << "it brought these ends about itself";
  EXPECT_EQ(machine.count(AgentFrame::kWorkersGone), 0U);
  machine.put(AllGone{});
  EXPECT_EQ(machine.only(AgentFrame::kWorkersGone).generation(), 1U);
}

TEST(Agent, RepeatedOrdersChangeNothing) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.prepare(1);
  EXPECT_EQ(machine.count(AgentFrame::kPrepared), 1U) << "the answer may have been lost";
  machine.assign(1);
  machine.go(1);
  EXPECT_TRUE(machine.all<StartWorker>().empty());
  EXPECT_TRUE(machine.all<TellWorker>().empty());
  (void)machine.take();
  machine.abort(1);
  machine.abort(1);
  EXPECT_EQ(machine.count(AgentFrame::kAbortAcknowledged), 2U);
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
  machine.put(AllGone{});
  (void)machine.take();
  machine.abort(1);
  EXPECT_EQ(machine.count(AgentFrame::kWorkersGone), 1U);
  EXPECT_TRUE(machine.all<KillAll>().empty());
}

TEST(Agent, DropsWhatBelongsToAnOlderGenerationOrAnotherJob) {
  Machine machine;
  machine.make_ready();
  machine.make_training(5);
  machine.prepare(4);
  machine.abort(4);
  auto commit = machine.order(4);
  commit.mutable_commit()->set_step(900);
  machine.put(FromController{commit});
  auto foreign = machine.order(6);
  foreign.set_job("kjv-2");
  foreign.mutable_abort();
  machine.put(FromController{foreign});
  machine.say(2, 4, protocol::worker::Connected{});
  machine.killed(2, 4);
  EXPECT_TRUE(machine.take().empty());
}

TEST(Agent, ANewGenerationEndsTheWorkersOfTheOldOneFirst) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.prepare(2);
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
  EXPECT_TRUE(machine.all<StartWorker>().empty());
  machine.put(AllGone{});
  const auto starts = machine.all<StartWorker>();
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].generation, Generation{2});
}

TEST(Agent, AnAbortDuringPrepareLeavesNothing) {
  Machine machine;
  machine.make_ready();
  machine.prepare(1);
  machine.started(2, 1);
  machine.abort(1);
  machine.say(2, 1, protocol::worker::Ready{"10.0.0.2", 7002});
  machine.say(3, 1, protocol::worker::Ready{"10.0.0.2", 7003});
  EXPECT_EQ(machine.count(AgentFrame::kPrepared), 0U);
  machine.put(AllGone{});
  EXPECT_EQ(machine.count(AgentFrame::kWorkersGone), 1U);
  (void)machine.take();
  machine.assign(1);
  EXPECT_TRUE(machine.all<TellWorker>().empty());
}

TEST(Agent, AnAbortWhileItClearsForTheNextGenerationCancelsThat) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.prepare(2);
  machine.abort(2);
  machine.put(AllGone{});
  EXPECT_TRUE(machine.all<StartWorker>().empty());
  EXPECT_EQ(machine.only(AgentFrame::kWorkersGone).generation(), 2U);
}

TEST(Agent, APrepareThatItsAbortHasOvertakenStartsNothing) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  machine.prepare(1);
  machine.put(AllGone{});
  EXPECT_EQ(machine.only(AgentFrame::kWorkersGone).generation(), 1U);
  machine.prepare(1);
  EXPECT_TRUE(machine.all<StartWorker>().empty());
  machine.prepare(2);
  EXPECT_EQ(machine.all<StartWorker>().size(), 2U);
}

TEST(Agent, TellsOfAWorkerThatEndedByItselfThoughItsAbortCameFirst) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  machine.killed(3, 1);
  EXPECT_EQ(machine.count(AgentFrame::kEvidence), 0U);
  WorkerEnded ended;
  ended.rank = Rank{2};
  ended.generation = Generation{1};
  ended.signal = 11;
  ended.by_itself = true;
  machine.put(ended);
  const auto exited = machine.only(AgentFrame::kEvidence).evidence().worker_exited();
  EXPECT_EQ(exited.signal(), 11);
  EXPECT_FALSE(exited.ordered());
}

TEST(Agent, StopsATrainerAtItsNextStepAndAProgramBySignalThenByForce) {
  const auto stop = [](Machine& machine, bool checkpoint) {
    auto frame = machine.order(1);
    frame.mutable_stop_workers()->set_checkpoint(checkpoint);
    frame.mutable_stop_workers()->set_grace_ms(2000);
    machine.put(FromController{frame});
  };
  Machine trainer;
  trainer.make_ready();
  trainer.make_training(1);
  stop(trainer, true);
  EXPECT_EQ(trainer.all<TellWorker>().size(), 2U);
  EXPECT_TRUE(trainer.all<AskWorkersToEnd>().empty());

  Machine program(false);
  program.make_ready();
  program.prepare(1);
  program.assign(1);
  program.started(2, 1);
  program.started(3, 1);
  program.go(1);
  stop(program, true);
  EXPECT_EQ(program.all<AskWorkersToEnd>().size(), 1U);
  program.killed(2, 1, 15);
  EXPECT_TRUE(program.only(AgentFrame::kEvidence).evidence().worker_exited().ordered());
  program.pass(1s);
  EXPECT_TRUE(program.all<KillAll>().empty());
  program.pass(1500ms);
  EXPECT_EQ(program.all<KillAll>().size(), 1U);
}

TEST(Agent, StopsATrainerWithoutACheckpointBySignalToo) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  auto frame = machine.order(1);
  frame.mutable_stop_workers()->set_grace_ms(2000);
  machine.put(FromController{frame});
  EXPECT_EQ(machine.all<AskWorkersToEnd>().size(), 1U);
  machine.killed(2, 1, 15);
  EXPECT_TRUE(machine.only(AgentFrame::kEvidence).evidence().worker_exited().ordered());
}

}  // namespace
}  // namespace dlaunch::supervisor::host
