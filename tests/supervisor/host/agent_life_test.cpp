// What an agent keeps and gives up over time: evidence, lease, incarnations, the end.
#include <gtest/gtest.h>

#include "supervisor/host/agent.h"
#include "supervisor/host/evidence_book.h"
#include "tests/supervisor/host/machine.h"

namespace dlaunch::supervisor::host {
namespace {

using protocol::AgentFrame;

TEST(AgentStart, LooksForNothingOnAHostThatNeverHadTheJob) {
  Identity identity;
  identity.job = "kjv-1";
  const auto clears = [](Agent agent) {
    for (const auto& command : agent.step(Instant(), DeadlineDue{})) {
      if (std::holds_alternative<KillAll>(command)) return true;
    }
    return false;
  };
  EXPECT_TRUE(clears(Agent(identity, Instant())));
  identity.first = true;
  EXPECT_FALSE(clears(Agent(identity, Instant())));
}

TEST(AgentEvidence, TellsHowAWorkerEnded) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  protocol::worker::Progress progress;
  progress.step = Step{812};
  progress.phase = "forward";
  machine.say(3, 1, progress);
  machine.pass(250ms);
  (void)machine.take();
  WorkerEnded ended;
  ended.rank = Rank{3};
  ended.generation = Generation{1};
  ended.pid = 103;
  ended.signal = 11;
  ended.last_lines = {"one", "two"};
  ended.error_message = "boom";
  machine.put(ended);
  const auto frame = machine.only(AgentFrame::kEvidence);
  const auto& exited = frame.evidence().worker_exited();
  EXPECT_EQ(frame.generation(), 1U);
  EXPECT_EQ(frame.evidence().number(), 1U);
  EXPECT_EQ(exited.signal(), 11);
  EXPECT_EQ(exited.step(), 812U);
  EXPECT_EQ(exited.last_lines(1), "two");
  EXPECT_EQ(exited.error_message(), "boom");
  EXPECT_FALSE(exited.ordered());
  EXPECT_DOUBLE_EQ(exited.lived_seconds(), 0.25);
  machine.put(ended);
  EXPECT_EQ(machine.count(AgentFrame::kEvidence), 1U) << "one end is one piece of evidence";
}

TEST(AgentEvidence, OfAFailureKeepsTheLogsOfItsGeneration) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  machine.killed(2, 1);
  EXPECT_TRUE(machine.all<KeepLogs>().empty()) << "the agent ended it itself";
  machine.put(AllGone{});
  machine.make_training(2);
  machine.killed(3, 2);
  ASSERT_EQ(machine.all<KeepLogs>().size(), 1U);
  EXPECT_EQ(machine.all<KeepLogs>()[0].generation, Generation{2});
  (void)machine.take();
  WorkerEnded finished;
  finished.rank = Rank{2};
  finished.generation = Generation{2};
  machine.put(finished);
  EXPECT_EQ(machine.count(AgentFrame::kEvidence), 1U);
  EXPECT_TRUE(machine.all<KeepLogs>().empty()) << "it ended well";
}

TEST(AgentEvidence, IsRepeatedOnEachConnectionUntilAcknowledged) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.killed(2, 1);
  machine.put(ConnectionDown{"reset"});
  machine.pass(1s);
  machine.killed(3, 1);
  (void)machine.take();
  machine.put(ConnectionUp{});
  EXPECT_EQ(machine.count(AgentFrame::kEvidence), 0U) << "not before it is welcomed";
  machine.welcome();
  ASSERT_EQ(machine.count(AgentFrame::kEvidence), 2U);
  for (const auto& frame : machine.frames()) {
    if (frame.has_evidence() && frame.evidence().number() == 1) {
      EXPECT_DOUBLE_EQ(frame.evidence().seconds_ago(), 1.0);
    }
  }
  auto acknowledged = machine.order(1);
  acknowledged.mutable_evidence_acknowledged()->set_number(1);
  machine.put(FromController{acknowledged});
  (void)machine.take();
  machine.put(ConnectionDown{"reset"});
  machine.put(ConnectionUp{});
  machine.welcome();
  EXPECT_EQ(machine.only(AgentFrame::kEvidence).evidence().number(), 2U);
}

TEST(AgentEvidence, OfLongTextsIsBoundedByWhatOneConnectionTakes) {
  EvidenceBook book;
  protocol::Evidence evidence;
  evidence.mutable_worker_failing()->set_reason(std::string(64 * 1024, 'r'));
  for (int i = 0; i < 500; ++i) book.add(Instant{}, Generation{1}, evidence);
  std::size_t bytes = 0;
  for (const auto& entry : book.waiting()) bytes += entry.evidence.ByteSizeLong();
  EXPECT_LE(bytes, protocol::kEvidenceBytesMax);
  EXPECT_GT(bytes, protocol::kEvidenceBytesMax / 2);
  EXPECT_EQ(book.waiting().back().evidence.number(), 500U);
  book.acknowledged(500);
  EXPECT_TRUE(book.waiting().empty());
  book.add(Instant{}, Generation{1}, evidence);
  EXPECT_EQ(book.waiting().size(), 1U);
}

TEST(AgentEvidence, IsBounded) {
  EvidenceBook book;
  for (std::size_t i = 0; i < protocol::kEvidenceKeptMax + 5; ++i) {
    book.add(Instant(), Generation{1}, {});
  }
  EXPECT_EQ(book.waiting().size(), protocol::kEvidenceKeptMax);
  EXPECT_EQ(book.waiting().front().evidence.number(), 6U);
}

TEST(AgentEvidence, SaysWhyAWorkerCouldNotBeStarted) {
  Machine machine;
  machine.make_ready();
  machine.prepare(1);
  (void)machine.take();
  machine.put(WorkerNotStarted{Rank{2}, Generation{1}, "executing /opt/trainer: No such file"});
  const auto finding = machine.only(AgentFrame::kEvidence).evidence().finding();
  EXPECT_EQ(finding.kind(), "spawn_failed");
  EXPECT_EQ(finding.rank(), 2U);
  EXPECT_NE(finding.sentence().find("No such file"), std::string::npos);
}

TEST(AgentEvidence, CountsALinkOnlyWhenItChanges) {
  Machine machine;
  machine.make_ready();
  machine.put(LinkSeen{"ib0", true, 0});
  machine.put(LinkSeen{"ib0", true, 0});
  EXPECT_EQ(machine.count(AgentFrame::kEvidence), 0U);
  machine.put(LinkSeen{"ib0", false, 0});
  EXPECT_FALSE(machine.only(AgentFrame::kEvidence).evidence().link_changed().up());
}

TEST(AgentHeartbeat, TellsTheLastStepBeforeTheEndOfItsWorker) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  protocol::worker::Progress progress;
  progress.step = Step{900};
  progress.loss = 2.25;
  machine.say(2, 1, progress);
  machine.say(2, 1, protocol::worker::Finished{Step{900}});
  (void)machine.take();
  machine.ended(2, 1);
  const auto frames = machine.all<Send>();
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].frame.heartbeat().workers(0).loss(), 2.25);
  EXPECT_TRUE(frames[1].frame.evidence().worker_exited().finished());
}

TEST(AgentHeartbeat, CarriesWhatEachWorkerDoesAndSinceWhen) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  protocol::worker::Progress progress;
  progress.step = Step{801};
  progress.phase = "backward";
  progress.loss = 2.5;
  progress.sequence = 9;
  progress.entered = true;
  machine.say(2, 1, progress);
  machine.put(ProcessStateSeen{Rank{2}, Generation{1}, "T"});
  machine.pass(100ms);
  (void)machine.take();
  machine.say(2, 1, progress);  // says nothing new
  machine.pass(100ms);
  const auto beat = machine.only(AgentFrame::kHeartbeat).heartbeat();
  ASSERT_EQ(beat.workers_size(), 2);
  const auto& status = beat.workers(0);
  EXPECT_EQ(status.rank(), 2U);
  EXPECT_EQ(status.pid(), 102U);
  EXPECT_EQ(status.state(), protocol::WORKER_RUNNING);
  EXPECT_EQ(status.step(), 801U);
  EXPECT_EQ(status.loss(), 2.5);
  EXPECT_EQ(status.process_state(), "T");
  EXPECT_TRUE(status.entered());
  EXPECT_DOUBLE_EQ(status.since_progress_seconds(), 0.2);
}

TEST(AgentLease, EndsTheHostsWorkWhenTheControllerIsSilent) {
  Machine machine(true, 10s);
  machine.put(ConnectionUp{});
  machine.welcome(1, 10'000);
  machine.put(AllGone{});
  machine.put(ConnectionDown{"no route"});
  machine.pass(9900ms);
  (void)machine.take();
  machine.pass(200ms);
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
  machine.put(AllGone{});
  EXPECT_EQ(machine.all<Exit>().size(), 1U);
}

TEST(AgentLease, ATrainerWritesACheckpointBeforeItsHostIsLeft) {
  Machine machine(true, 10s);
  machine.make_ready();
  machine.make_training(1);
  machine.put(ConnectionDown{"no route"});
  machine.pass(61s);
  const auto told = machine.all<TellWorker>();
  ASSERT_EQ(told.size(), 2U);
  const auto& body = told[0].message.body;
  ASSERT_TRUE(std::holds_alternative<protocol::worker::Stop>(body));
  EXPECT_TRUE(std::get<protocol::worker::Stop>(body).checkpoint);
  EXPECT_TRUE(machine.all<KillAll>().empty());
  machine.ended(2, 1);
  EXPECT_TRUE(machine.all<KillAll>().empty());
  machine.ended(3, 1);
  EXPECT_EQ(machine.all<KillAll>().size(), 1U) << "what they left behind, then the agent goes";
  machine.put(AllGone{});
  EXPECT_EQ(machine.all<Exit>().size(), 1U);
}

TEST(AgentLease, WhatItsWorkersWriteAtItsEndIsNotedBesideIt) {
  Machine machine(true, 10s);
  machine.make_ready();
  machine.make_training(1);
  protocol::worker::Written line;
  line.step = Step{7};
  line.file = "shard-0-of-2.safetensors";
  const WorkerSaid said{Rank{2}, Generation{1}, {Generation{1}, line}};
  machine.put(said);
  EXPECT_TRUE(machine.all<NoteWritten>().empty()) << "the controller is told";
  machine.put(ConnectionDown{"no route"});
  machine.pass(61s);
  ASSERT_EQ(machine.all<NoteWritten>().size(), 1U) << "it may never have been committed";
  EXPECT_EQ(machine.all<NoteWritten>()[0].written.file(), line.file);
  EXPECT_EQ(machine.all<NoteWritten>()[0].generation, Generation{1});
  line.step = Step{8};
  machine.put(WorkerSaid{Rank{2}, Generation{1}, {Generation{1}, line}});
  ASSERT_EQ(machine.all<NoteWritten>().size(), 2U);
  EXPECT_EQ(machine.all<NoteWritten>()[1].written.step(), 8U);
}

TEST(AgentLease, WhatEndedWorkersWroteIsNotedToo) {
  Machine machine(true, 10s);
  machine.make_ready();
  machine.make_training(1);
  machine.put(ConnectionDown{"no route"});
  protocol::worker::Written line;
  line.step = Step{7};
  line.file = "shard-0-of-2.safetensors";
  machine.put(WorkerSaid{Rank{2}, Generation{1}, {Generation{1}, line}});
  WorkerEnded ended;
  ended.rank = Rank{2};
  ended.generation = Generation{1};
  machine.put(ended);
  EXPECT_TRUE(machine.all<NoteWritten>().empty()) << "a controller may come back";
  machine.pass(61s);
  ASSERT_EQ(machine.all<NoteWritten>().size(), 1U);
  EXPECT_EQ(machine.all<NoteWritten>()[0].written.step(), 7U);
}

TEST(AgentLease, WhatDoesNotEndWithinTheGraceIsEnded) {
  Machine machine(true, 10s);
  machine.make_ready();
  machine.make_training(1);
  machine.put(ConnectionDown{"no route"});
  machine.pass(60s + 4900ms);
  EXPECT_TRUE(machine.all<KillAll>().empty());
  machine.pass(200ms);
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
}

TEST(AgentLease, AControllerThatComesBackTooLateIsNotObeyedButForLeaving) {
  Machine machine(true, 10s);
  machine.make_ready();
  machine.make_training(1);
  machine.put(ConnectionDown{"no route"});
  machine.pass(61s);
  machine.put(ConnectionUp{});
  machine.welcome();
  machine.prepare(2);
  EXPECT_TRUE(machine.all<KillAll>().empty());
  EXPECT_TRUE(machine.all<StartWorker>().empty());
  auto leave = machine.order(2);
  leave.mutable_leave()->set_reason("over");
  machine.put(FromController{leave});
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
}

TEST(AgentLease, KeepLetsTheWorkersGoOn) {
  Machine machine(true, 10s);
  machine.keep_on_lease_end = true;
  machine.make_ready();
  machine.make_training(1);
  machine.put(ConnectionDown{"no route"});
  machine.pass(1h);
  EXPECT_TRUE(machine.take().size() == 1) << "the note that the controller cannot be reached";
}

TEST(AgentLease, IsRenewedByEveryFrameOfTheController) {
  Machine machine(true, 10s);
  machine.put(ConnectionUp{});
  machine.welcome(1, 10'000);
  machine.put(AllGone{});
  for (int i = 0; i < 5; ++i) {
    machine.pass(9s);
    auto beat = machine.order(0);
    beat.mutable_beat();
    machine.put(FromController{beat});
  }
  EXPECT_TRUE(machine.all<Exit>().empty());
  EXPECT_EQ(machine.all<KillAll>().size(), 1U) << "that of the beginning";
}

TEST(AgentLease, AnOldControllerDoesNotRenewIt) {
  Machine machine(true, 10s);
  machine.put(ConnectionUp{});
  machine.welcome(3, 10'000);
  machine.put(AllGone{});
  machine.pass(9s);
  auto beat = machine.order(0, 2);
  beat.mutable_beat();
  machine.put(FromController{beat});
  machine.pass(2s);
  machine.put(AllGone{});
  EXPECT_EQ(machine.all<Exit>().size(), 1U);
}

TEST(AgentIncarnation, ObeysOnlyTheHighestItHasSeen) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.put(ConnectionDown{"reset"});
  machine.put(ConnectionUp{});
  machine.welcome(2);
  (void)machine.take();
  auto old = machine.order(9, 1);
  old.mutable_abort();
  machine.put(FromController{old});
  auto leave = machine.order(0, 1);
  leave.mutable_leave();
  machine.put(FromController{leave});
  EXPECT_TRUE(machine.take().empty());
  machine.put(ConnectionDown{"reset"});
  machine.put(ConnectionUp{});
  machine.welcome(1);
  EXPECT_EQ(machine.all<Reconnect>().size(), 1U);
  EXPECT_EQ(machine.count(AgentFrame::kHeartbeat), 0U);
}

TEST(AgentIncarnation, ANewControllerLearnsWhatRunsHere) {
  Machine machine;
  machine.make_ready();
  machine.make_training(4);
  machine.killed(2, 4);
  machine.put(ConnectionDown{"reset"});
  (void)machine.take();
  machine.put(ConnectionUp{});
  const auto hello = machine.only(AgentFrame::kHello).hello();
  ASSERT_EQ(hello.workers_size(), 2);
  EXPECT_EQ(hello.generation(), 4U);
  EXPECT_EQ(hello.phase(), protocol::HOST_TRAINING);
  EXPECT_FALSE(hello.workers(0).alive());
  EXPECT_FALSE(hello.workers(0).finished());
  EXPECT_EQ(hello.workers(1).rank(), 3U);
  EXPECT_EQ(hello.workers(1).generation(), 4U);
  EXPECT_EQ(hello.workers(1).pid(), 103U);
  EXPECT_TRUE(hello.workers(1).alive());
}

TEST(AgentEnd, LeavesOnlyWhenNothingIsLeft) {
  Machine machine;
  machine.make_ready();
  machine.prepare(1);
  machine.started(2, 1);
  (void)machine.take();
  auto leave = machine.order(0);
  leave.mutable_leave()->set_reason("the job finished");
  machine.put(FromController{leave});
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
  machine.prepare(2);
  machine.say(2, 1, protocol::worker::Ready{"10.0.0.2", 7002});
  EXPECT_TRUE(machine.all<StartWorker>().empty());
  EXPECT_EQ(machine.count(AgentFrame::kLeft), 0U);
  machine.put(AllGone{});
  EXPECT_EQ(machine.count(AgentFrame::kLeft), 1U);
  const auto said = machine.take();
  EXPECT_TRUE(std::holds_alternative<Exit>(said.back()));
  EXPECT_FALSE(machine.deadline());
}

TEST(AgentEnd, ASignalMakesItLeaveToo) {
  Machine machine;
  machine.make_ready();
  machine.put(LeaveAsked{"asked by signal 15"});
  machine.put(LeaveAsked{"asked by signal 15"});
  EXPECT_EQ(machine.all<KillAll>().size(), 1U);
  machine.put(AllGone{});
  EXPECT_EQ(machine.all<Exit>().size(), 1U);
}

TEST(AgentEnd, WhatCannotBeEndedIsNamed) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  (void)machine.take();
  machine.put(Undead{"process 103 sleeps in the kernel"});
  EXPECT_EQ(machine.only(AgentFrame::kEvidence).evidence().finding().kind(), "undead");
  EXPECT_EQ(machine.count(AgentFrame::kWorkersGone), 0U);
}

TEST(AgentCheckpoints, AreCommittedOnOrderAndTheWorkersLearnIt) {
  Machine machine;
  machine.make_ready();
  machine.make_training(2);
  protocol::worker::Written written;
  written.step = Step{820};
  written.file = "shard-3-of-4.safetensors";
  written.bytes = 10;
  machine.say(3, 2, written);
  EXPECT_EQ(machine.only(AgentFrame::kWritten).written().rank(), 3U);
  auto order = machine.order(2);
  order.mutable_commit()->set_step(820);
  machine.put(FromController{order});
  const auto commits = machine.all<CommitCheckpoint>();
  ASSERT_EQ(commits.size(), 1U);
  EXPECT_EQ(commits[0].generation, Generation{2});
  (void)machine.take();
  machine.put(CommitDone{Generation{2}, 820, ""});
  EXPECT_EQ(machine.only(AgentFrame::kCommitted).committed().step(), 820U);
  EXPECT_EQ(machine.all<TellWorker>().size(), 2U);
}

TEST(AgentCheckpoints, AreReportedAfterWhatIsKnownOfTheirStep) {
  Machine machine;
  machine.make_ready();
  machine.make_training(2);
  protocol::worker::Progress progress;
  progress.step = Step{820};
  progress.loss = 2.5;
  progress.figures.gradient_norm = 1.5;
  machine.say(3, 2, progress);
  protocol::worker::Written written;
  written.step = Step{820};
  (void)machine.take();
  machine.say(3, 2, written);
  const auto frames = machine.all<Send>();
  ASSERT_EQ(frames.size(), 2U);
  ASSERT_EQ(frames[0].frame.body_case(), AgentFrame::kHeartbeat);
  const auto& status = frames[0].frame.heartbeat().workers(1);
  EXPECT_EQ(status.step(), 820U);
  EXPECT_EQ(status.loss(), 2.5);
  EXPECT_EQ(status.figures().gradient_norm(), 1.5);
  EXPECT_EQ(frames[1].frame.body_case(), AgentFrame::kWritten);
}

TEST(AgentCheckpoints, AreReportedAgainAfterAConnectionThatMayHaveLostThem) {
  Machine machine;
  machine.make_ready();
  machine.make_training(2);
  protocol::worker::Written written;
  written.step = Step{820};
  machine.say(2, 2, written);
  machine.put(ConnectionDown{"reset"});
  machine.say(3, 2, written);
  machine.put(CommitDone{Generation{2}, 810, ""});
  (void)machine.take();
  machine.put(ConnectionUp{});
  EXPECT_EQ(machine.count(AgentFrame::kWritten), 0U) << "not before it is welcomed";
  machine.welcome();
  EXPECT_EQ(machine.count(AgentFrame::kWritten), 2U);
  EXPECT_EQ(machine.only(AgentFrame::kCommitted).committed().step(), 810U);
  EXPECT_EQ(machine.only(AgentFrame::kCommitted).generation(), 2U);

  for (std::uint64_t step = 830; step < 930; step += 10) {
    written.step = Step{step};
    machine.say(2, 2, written);
  }
  machine.put(ConnectionDown{"reset"});
  (void)machine.take();
  machine.put(ConnectionUp{});
  machine.welcome();
  EXPECT_EQ(machine.count(AgentFrame::kWritten), 5U) << "four of rank 2, one of rank 3";

  machine.abort(2);
  machine.put(AllGone{});
  machine.make_training(3);
  machine.put(ConnectionDown{"reset"});
  machine.put(ConnectionUp{});
  machine.welcome();
  EXPECT_EQ(machine.count(AgentFrame::kWritten), 0U) << "those are of an older generation";
  EXPECT_EQ(machine.count(AgentFrame::kCommitted), 0U);
}

TEST(AgentCheckpoints, ACommitOfAnOlderGenerationIsNotTakenForThePresentOnes) {
  Machine machine;
  machine.make_ready();
  machine.make_training(3);
  machine.put(CommitDone{Generation{2}, 810, ""});
  EXPECT_EQ(machine.only(AgentFrame::kCommitted).generation(), 2U);
  EXPECT_TRUE(machine.all<TellWorker>().empty());
}

TEST(AgentStart, ItsAnswersAreRepeatedWhenTheOrderIs) {
  Machine machine;
  machine.make_ready();
  machine.prepare(1);
  for (const std::uint32_t rank : {2U, 3U}) {
    machine.started(rank, 1);
    machine.say(rank, 1, protocol::worker::Ready{"10.0.0.2", static_cast<std::uint16_t>(rank)});
  }
  machine.assign(1);
  machine.put(ConnectionDown{"reset"});
  for (const std::uint32_t rank : {2U, 3U}) {
    machine.say(rank, 1, protocol::worker::Connected{});
    machine.say(rank, 1, protocol::worker::Restored{Step{800}});
  }
  machine.put(ConnectionUp{});
  machine.welcome();
  (void)machine.take();
  machine.assign(1);
  EXPECT_EQ(machine.count(AgentFrame::kConnected), 1U);
  EXPECT_EQ(machine.only(AgentFrame::kRestored).restored().step(), 800U);
  EXPECT_TRUE(machine.all<TellWorker>().empty()) << "the workers were told before";
}

TEST(AgentEnd, ThatNothingIsLeftIsSaidAgainToWhoMayNotHaveHeardIt) {
  Machine machine;
  machine.make_ready();
  machine.make_training(1);
  machine.abort(1);
  machine.put(Undead{"process 103 sleeps in the kernel"});
  machine.put(ConnectionDown{"reset"});
  machine.put(AllGone{});
  (void)machine.take();
  machine.put(ConnectionUp{});
  machine.welcome();
  EXPECT_EQ(machine.only(AgentFrame::kWorkersGone).generation(), 1U);
}

}  // namespace
}  // namespace dlaunch::supervisor::host
