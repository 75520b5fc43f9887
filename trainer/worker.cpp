// Parks, takes assignments and answers the agent, generation after generation in one process.
#include "trainer/worker.h"

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/overloaded.h"
#include "protocol/limits.h"
#include "trainer/exit_code.h"
#include "trainer/member.h"
#include "trainer/model/library.h"
#include "trainer/progress.h"

namespace dlaunch::trainer {

namespace message = protocol::worker;
using message::FailingCategory;

namespace {

/// While the agent lives it may wait for other hosts as long as the job allows; this only ends
/// workers that everybody has forgotten.
constexpr milliseconds kAssignLimit = 1h;
/// After a lost peer, for the abort or the next assignment.
constexpr milliseconds kAbortLimit = 120s;
/// Other ranks restore, too.
constexpr milliseconds kGoLimit = 1h;
/// For the last words to reach the agent.
constexpr milliseconds kLeaveLimit = 10s;

class Worker {
 public:
  Worker(const Environment& environment, Mailbox& mailbox, AgentLink& link)
      : environment_(environment), mailbox_(mailbox), link_(link) {}

  int run() {
    generation_ = environment_.generation;
    link_.send(generation_, message::Hello{protocol::kWorkerProtocolVersion, environment_.rank,
                                           environment_.local_rank, environment_.pid});
    auto listener = comm::MeshListener::open(environment_.data_address,
                                             {environment_.port_first, environment_.port_last},
                                             environment_.pid);
    if (!listener) return fail({FailingCategory::config_error, listener.error().text()});
    link_.send(generation_, message::Ready{listener->address(), listener->port()});
    park();
    while (!exit_code_) {
      std::visit(Overloaded{
                     [&](const Assigned& assigned) { on_assigned(assigned, *listener); },
                     [&](const AbortAsked&) { on_abort(); },
                     [&](const StopAsked&) { finish(live_step_.value_or(0)); },
                     [&](const TimedOut&) { on_forgotten(); },
                     [](const GoAhead&) {},
                 },
                 mailbox_.wait_parked(limit_));
    }
    return *exit_code_;
  }

 private:
  void on_assigned(const Assigned& assigned, comm::MeshListener& listener) {
    generation_ = assigned.generation;
    limit_ = kAssignLimit;
    live_step_.reset();
    auto member = Member::prepare(assigned, environment_.local_world_size);
    if (!member) return end(member.error());
    member_ = std::move(*member);
    say("generation " + std::to_string(generation_.value) + ", " + member_->sentence());
    tell_phase("connect");
    const auto connected = member_->connect(listener, mailbox_.abort_flag());
    if (!connected) return end(connected.error());
    say(member_->communicator().links_sentence());
    link_.send(generation_, message::Connected{});
    tell_phase("restore");
    const auto tell_written = [this,
                               generation = generation_](const checkpoint::ShardReport& shard) {
      link_.send(generation,
                 message::Written{shard.step, shard.file, shard.bytes, shard.hash, shard.seconds});
    };
    const auto restored = member_->restore(tell_written, known_data_);
    if (!restored) return end(restored.error());
    live_step_ = member_->step();
    link_.send(generation_, message::Restored{Step{*live_step_}, member_->differs()});
    if (!member_->differs().empty()) say("warning: " + member_->differs());
    say(*live_step_ == 0 ? "starting from the first values"
                         : "going on from step " + std::to_string(*live_step_));
    await_go();
  }

  void await_go() {
    std::visit(Overloaded{
                   [&](const GoAhead&) { train(); },
                   [&](const StopAsked& stop) { end(member_->stop(stop.checkpoint)); },
                   [&](const AbortAsked&) { leave_mesh(); },
                   [&](const TimedOut&) { on_forgotten(); },
                   [](const Assigned&) {},
               },
               mailbox_.wait_go(kGoLimit));
  }

  void train() {
    auto& communicator = member_->communicator();
    link_.watch_collectives([&communicator] { return communicator.collective_state(); });
    ProgressTeller teller(
        member_->settings(), member_->step(),
        Gauges{member_->flops_per_step(), memory_use, [this] { return rates(); }},
        [this](const message::Progress& progress) { link_.set_progress(generation_, progress); },
        say);
    const auto outcome = member_->train(mailbox_, teller);
    live_step_ = member_->step();
    link_.watch_collectives(nullptr);
    end(outcome);
  }

  /// What became of the member, whatever it was doing.
  template <class Ending>
  void end(const Ending& ending) {
    std::visit(Overloaded{
                   [&](const Finished& finished) { finish(finished.step); },
                   [&](const Failed& failed) { fail(failed); },
                   [&](const comm::CommFailure& lost) { on_mesh_broken(lost); },
               },
               ending);
  }

  void on_mesh_broken(const comm::CommFailure& lost) {
    if (lost.kind != comm::FailureKind::aborted) {
      const auto reason = lost.error.text();
      say("left generation " + std::to_string(generation_.value) + ": " + reason);
      link_.send(generation_, message::Failing{FailingCategory::peer_lost, reason, lost.suspect});
    }
    leave_mesh();
    // When a peer has told us of the abort before the agent did, the agent's is about to come.
    if (lost.kind != comm::FailureKind::aborted) park();
    limit_ = kAbortLimit;
  }

  void on_abort() {
    say("generation " + std::to_string(generation_.value) +
        " is aborted: " + mailbox_.abort_flag()->reason());
    generation_ = mailbox_.generation();
    limit_ = kAssignLimit;
    park();
  }

  void leave_mesh() { member_.reset(); }

  void park() {
    message::Parked parked;
    if (live_step_) parked.live_step = Step{*live_step_};
    parked.live_clean = live_step_.has_value();
    link_.send(generation_, parked);
  }

  void finish(std::uint64_t step) {
    say("finished at step " + std::to_string(step));
    link_.send(generation_, message::Finished{Step{step}});
    exit_code_ = link_.leave(kLeaveLimit) ? kExitFinished : kExitFailed;
  }

  int fail(const Failed& failed) {
    std::fprintf(stderr, "dlaunch-trainer: %s\n", failed.reason.c_str());
    if (!failed.broken_device) {
      link_.send(generation_, message::Failing{failed.category, failed.reason, {}});
    } else if (member_) {
      member_->abandon_model();
    }
    static_cast<void>(link_.leave(kLeaveLimit));
    exit_code_ = kExitFailed;
    return kExitFailed;
  }

  void on_forgotten() {
    std::fputs("dlaunch-trainer: no order has come for too long, giving up\n", stderr);
    exit_code_ = kExitForgotten;
  }

  void tell_phase(const char* phase) {
    message::Progress progress;
    progress.step = member_ ? Step{member_->step()} : Step{};
    progress.phase = phase;
    link_.set_progress(generation_, progress);
  }

  /// Measured once in the life of the process.
  const Rates& rates() {
    if (!rates_) {
      const auto& settings = member_->settings();
      rates_ = Rates{measure_gemm_flops_per_second(),
                     settings.device == Device::cpu ? peak_flops_per_second(settings.threads) : 0};
    }
    return *rates_;
  }

  static void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  const Environment& environment_;
  Mailbox& mailbox_;
  AgentLink& link_;
  Generation generation_;
  std::unique_ptr<Member> member_;
  KnownData known_data_;
  std::optional<std::uint64_t> live_step_;
  std::optional<Rates> rates_;
  milliseconds limit_ = kAssignLimit;
  std::optional<int> exit_code_;
};

}  // namespace

int run_worker(const Environment& environment, Mailbox& mailbox, AgentLink& link) {
  return Worker(environment, mailbox, link).run();
}

}  // namespace dlaunch::trainer
