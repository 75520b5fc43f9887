// A host's agent under test: what is told to it and what it answered.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "protocol/endpoints.h"
#include "protocol/limits.h"
#include "supervisor/host/agent.h"

namespace dlaunch::supervisor::host {

/// The machine with a clock of its own and everything that it answered since the last `take`.
class Machine {
 public:
  explicit Machine(bool trainer = true, nanoseconds lease = 60s) : trainer_(trainer) {
    Identity identity;
    identity.job = "kjv-1";
    identity.host = HostId{1};
    identity.name = "gpu02";
    identity.build = "test";
    identity.boot_id = "boot";
    identity.agent = 7;
    identity.pid = 4242;
    identity.lease = lease;
    agent_.emplace(std::move(identity), now_);
  }

  void put(const Event& event) {
    for (auto& command : agent_->step(now_, event)) said_.push_back(std::move(command));
  }
  /// Lets time pass from deadline to deadline, as the shell would.
  void pass(nanoseconds length) {
    const auto end = now_ + length;
    for (auto due = agent_->next_deadline(); due && *due <= end; due = agent_->next_deadline()) {
      now_ = std::max(now_, *due);
      put(DeadlineDue{});
      if (agent_->next_deadline() == due) break;
    }
    now_ = end;
  }
  [[nodiscard]] protocol::ControllerFrame order(std::uint64_t generation,
                                                std::uint64_t incarnation = 1) const {
    protocol::ControllerFrame frame;
    frame.set_job("kjv-1");
    frame.set_group(protocol::kGroupMain);
    frame.set_generation(generation);
    frame.set_incarnation(incarnation);
    return frame;
  }
  void welcome(std::uint64_t incarnation = 1, std::uint32_t lease_ms = 60'000) {
    auto frame = order(0, incarnation);
    auto& welcome = *frame.mutable_welcome();
    welcome.set_heartbeat_ms(100);
    welcome.set_lease_ms(lease_ms);
    welcome.set_stop_on_lease_end(!keep_on_lease_end);
    auto& job = *welcome.mutable_job();
    job.set_trainer(trainer_);
    job.set_stop_grace_ms(5'000);
    job.add_command(trainer_ ? "/opt/trainer" : "python3");
    if (!trainer_) job.add_command("train.py");
    job.set_port_first(29'600);
    job.set_port_last(29'899);
    job.set_directory("/data");
    job.set_checkpoint_directory("/data/checkpoints");
    job.set_trainer_settings(R"({"steps":10})");
    put(FromController{frame});
  }
  void prepare(std::uint64_t generation, std::uint32_t first_rank = 2, std::uint32_t workers = 2) {
    auto frame = order(generation);
    auto& prepare = *frame.mutable_prepare();
    prepare.set_world_size(4);
    prepare.set_first_rank(first_rank);
    prepare.set_workers(workers);
    prepare.set_host_index(1);
    prepare.set_hosts(2);
    put(FromController{frame});
  }
  /// A program is told of the first of them.
  static std::vector<protocol::Listening> assigned_ranks() {
    return {{"10.0.0.1", 5000}, {"10.0.0.1", 5001}, {"10.0.0.2", 5002}, {"10.0.0.2", 5003}};
  }
  void assign(std::uint64_t generation) {
    auto frame = order(generation);
    auto& assign = *frame.mutable_assign();
    *assign.mutable_endpoints() = protocol::pack_endpoints(assigned_ranks());
    assign.set_token("\x01\xab");
    assign.set_restore_step(800);
    put(FromController{frame});
  }
  void go(std::uint64_t generation) {
    auto frame = order(generation);
    frame.mutable_go();
    put(FromController{frame});
  }
  void abort(std::uint64_t generation) {
    auto frame = order(generation);
    frame.mutable_abort()->set_reason("rank 0 died");
    put(FromController{frame});
  }
  void say(std::uint32_t rank, std::uint64_t generation, protocol::WorkerMessage::Body body) {
    put(WorkerSaid{Rank{rank}, Generation{generation}, {Generation{generation}, std::move(body)}});
  }
  void started(std::uint32_t rank, std::uint64_t generation) {
    put(WorkerStarted{Rank{rank}, Generation{generation}, 100 + rank});
  }
  void killed(std::uint32_t rank, std::uint64_t generation, int signal = 9) {
    WorkerEnded ended;
    ended.rank = Rank{rank};
    ended.generation = Generation{generation};
    ended.pid = 100 + rank;
    ended.signal = signal;
    put(ended);
  }
  /// The worker did its last step.
  void ended(std::uint32_t rank, std::uint64_t generation) { killed(rank, generation, 0); }
  /// Planted, welcomed, checked; nothing runs.
  void make_ready() {
    put(ConnectionUp{});
    welcome();
    put(AllGone{});
    SelfChecked checked;
    checked.ready.mutable_facts()->set_data_address("10.0.0.2");
    checked.data_interface = "ib0";
    put(checked);
    (void)take();
  }
  /// Ranks 2 and 3 of a trainer train in `generation`.
  void make_training(std::uint64_t generation) {
    prepare(generation);
    for (const std::uint32_t rank : {2U, 3U}) {
      started(rank, generation);
      say(rank, generation, protocol::worker::Ready{"10.0.0.2", static_cast<std::uint16_t>(rank)});
    }
    assign(generation);
    for (const std::uint32_t rank : {2U, 3U}) say(rank, generation, protocol::worker::Connected{});
    for (const std::uint32_t rank : {2U, 3U}) {
      say(rank, generation, protocol::worker::Restored{Step{800}});
    }
    go(generation);
    (void)take();
  }

  [[nodiscard]] std::vector<Command> take() { return std::exchange(said_, {}); }
  [[nodiscard]] std::vector<protocol::AgentFrame> frames() {
    std::vector<protocol::AgentFrame> list;
    for (const auto& send : all<Send>()) list.push_back(send.frame);
    return list;
  }
  /// Of what was answered since the last `take`.
  template <class Kind>
  [[nodiscard]] std::vector<Kind> all() const {
    std::vector<Kind> list;
    for (const auto& command : said_) {
      if (const auto* found = std::get_if<Kind>(&command)) list.push_back(*found);
    }
    return list;
  }
  [[nodiscard]] std::size_t count(protocol::AgentFrame::BodyCase body) {
    std::size_t found = 0;
    for (const auto& frame : frames()) found += frame.body_case() == body ? 1 : 0;
    return found;
  }
  /// The only frame of this kind.
  [[nodiscard]] protocol::AgentFrame only(protocol::AgentFrame::BodyCase body) {
    EXPECT_EQ(count(body), 1U) << "of body " << static_cast<int>(body);
    for (const auto& frame : frames()) {
      if (frame.body_case() == body) return frame;
    }
    return {};
  }

  [[nodiscard]] std::optional<Instant> deadline() const { return agent_->next_deadline(); }
  bool keep_on_lease_end = false;

 private:
  bool trainer_;
  Instant now_ = Instant(1h);
  std::optional<Agent> agent_;
  std::vector<Command> said_;
};

}  // namespace dlaunch::supervisor::host
