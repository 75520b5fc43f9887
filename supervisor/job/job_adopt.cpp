// A controller that was started again: what runs goes on, what was begun is ended.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "base/probe.h"
#include "protocol/json_text.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

JobState state_of(const Recovered::Ended& ended) {
  for (const auto state : {JobState::finished, JobState::stopped, JobState::failed}) {
    if (ended.state == to_string(state)) return state;
  }
  return ended.code == to_int(ExitCode::finished) ? JobState::finished : JobState::failed;
}

std::string how_far(const Recovered& recovered) {
  const auto generation = "generation " + std::to_string(recovered.last_generation.value);
  if (recovered.ended) return "the job is over, its agents are told";
  if (!recovered.plan) return generation + " was the last";
  if (recovered.broken) return generation + " was being ended";
  return generation + (recovered.went ? " was running" : " was being formed");
}

protocol::HostPhase phase_of(const protocol::Hello& hello, Generation generation) {
  return hello.generation() == generation.value ? hello.phase() : protocol::HOST_IDLE;
}

}  // namespace

void Job::Impl::on(Instant now, const Begin&) {
  if (!recovered_) return;
  const auto recovered = *recovered_;
  if (recovered.last_generation.value > 0) {
    record("controller_restarted", {}, {}, how_far(recovered));
  }
  take_up_links(recovered.broken_links);
  take_up(now, recovered);
  if (!std::holds_alternative<Adopting>(state_)) recovered_.reset();
}

void Job::Impl::take_up(Instant now, const Recovered& recovered) {
  if (const auto& ended = recovered.ended) {
    set_state(state_of(*ended), ended->sentence);
    state_ = Ending{0, now, Finish{ended->code, state_of(*ended), ended->sentence}};
    return become_over();
  }
  if (!recovered.plan || DL_MUTANT("adoption_forgotten")) return;
  plan_ = *recovered.plan;
  if (recovered.incident) incidents_.restore(*recovered.incident, recovered.same_clock, now);
  running_since_ = began_at_ = recovered.went;
  master_port_ = recovered.master_port;
  ranks_.begin_generation(plan_, now);
  checkpoints_.begin_generation(plan_.world_size);
  if (const auto& restoring = recovered.restoring) {
    restore_step_ = restoring->step;
    const auto newest = checkpoints_.newest();
    checkpoints_.adopt(newest > restoring->step ? newest : std::nullopt, recovered.committing);
  }
  advanced_ = recovered.advanced;
  progressed_ = recovered.progressed;
  if (const auto& broken = recovered.broken) {
    if (!broken->planned || policy_.trainer) return become_aborting_again(now, *broken);
    // Its workers may have been asked to end, or not yet; those that have ended say so.
    become_parting(now, broken->reason);
    std::get<Parting>(state_).due += policy_.readmit;
    return;
  }
  state_ = Adopting{};
  set_state(state_underway(), "the controller was started again: the agents of generation " +
                                  std::to_string(generation_.value) + " are awaited");
}

void Job::Impl::take_up_links(const std::vector<BrokenLink>& links) {
  for (const auto& link : links) {
    const bool probed = link.link == kPath;
    links_.restore(link.host, link.link, link.since, probed);
    out_.push_back(DataLinkJudged{link.host, false, link.sentence, probed});
  }
}

void Job::Impl::on(Instant, const WayKnown& e) {
  (void)journal(
      "over_ssh",
      protocol::json_text({{"host", name(e.host)}, {"id", e.host.value}, {"over", e.over_ssh}}));
}

/// So that a further incarnation does not let in a host that was taken out.
void Job::Impl::on(Instant, const MembershipAsked& e) {
  (void)journal(e.drained ? "drained" : "added",
                protocol::json_text({{"host", name(e.host)}, {"id", e.host.value}}));
}

/// Nothing is left to be adopted or ended; where a program may still run it is waited for.
void Job::Impl::on_coordinator(Instant now, const rendezvous::NobodyCameBack& e) {
  recovered_.reset();
  for (const auto host : members()) may_still_run(now, host);
  for (const auto host : members()) ranks_.host_gone(host);
  DL_PROBE("nobody comes back to a new controller");
  if (const auto* parting = std::get_if<Parting>(&state_)) {
    become_aborting(now, std::string(parting->reason));
  }
  if (auto* aborting = std::get_if<Aborting>(&state_)) {
    for (const auto host : members()) aborting->excuse(host);
    return settle_abort(now);
  }
  if (!std::holds_alternative<Adopting>(state_)) return;
  state_ = Gathering{};
  set_state(state_underway(), e.sentence);
}

/// Agents repeat their answers, so that those who have left long ago say so again.
void Job::Impl::become_aborting_again(Instant now, const Recovered::Broken& broken) {
  become_aborting(now, broken.reason);
  if (!broken.planned) incidents_.go_on_with_round();
  auto& aborting = std::get<Aborting>(state_);
  aborting.due = now + policy_.readmit + policy_.abort_deadline;
  if (incidents_.is_open()) aborting.judge_due = now + policy_.cause_window;
}

void Job::Impl::on(Instant now, const AgentArrived& e) {
  unsure_before_.erase(e.host);
  if (std::holds_alternative<Parting>(state_)) return note_parting(now, e.host, e.hello);
  auto* adopting = std::get_if<Adopting>(&state_);
  if (adopting == nullptr || !is_member(e.host)) return;
  adopting->hellos[e.host] = e.hello;
  DL_PROBE("a member comes back to a new controller");
  const bool present = e.hello.generation() == generation_.value;
  if (present) note_workers(now, e.host, e.hello);
  if (present && e.hello.stop_told() && !stop_) {
    stop_ = StopAsked{false, false, "asked for before the controller was started again"};
  }
  if (auto happening = judge_hello(now, e.host, e.hello)) {
    recovered_.reset();
    return happened(now, std::move(*happening));
  }
  judge_adoption(now);
}

/// What cannot be adopted. The agent's evidence follows its hello and explains more.
std::optional<Happening> Job::Impl::judge_hello(Instant now, HostId host,
                                                const protocol::Hello& hello) const {
  if (hello.generation() != generation_.value) return std::nullopt;
  Happening happening;
  happening.weight = Weight::cascade;
  happening.cause = "unknown";
  happening.host = host;
  happening.happened_at = now;
  if (hello.aborted()) {
    happening.what = "generation " + std::to_string(generation_.value) +
                     " was ended just before the controller died, which did not write down why";
    return happening;
  }
  for (const auto& worker : hello.workers()) {
    if (worker.alive() || worker.finished()) continue;
    happening.cause = "worker_crashed";
    happening.rank = Rank{worker.rank()};
    happening.what = "rank " + std::to_string(worker.rank()) + " on " + name(host) +
                     " ended while there was no controller";
    return happening;
  }
  return std::nullopt;
}

void Job::Impl::judge_adoption(Instant now) {
  if (std::get<Adopting>(state_).hellos.size() < plan_.members.size()) return;
  const auto hellos = std::get<Adopting>(state_).hellos;
  bool all_train = true, some_joined = false;
  std::optional<HostId> behind;
  for (const auto& [host, hello] : hellos) {
    const auto phase = phase_of(hello, generation_);
    all_train = all_train && phase == protocol::HOST_TRAINING;
    some_joined = some_joined || phase >= protocol::HOST_JOINING;
    if (phase < protocol::HOST_READY && !behind) behind = host;
  }
  const auto recovered = *std::exchange(recovered_, std::nullopt);
  if (all_train) return adopt_running(now, recovered);
  if (some_joined && behind) {
    // It was assigned to workers that an agent before this one started.
    Happening happening;
    happening.weight = Weight::agent;
    happening.cause = "agent_lost";
    happening.host = behind;
    happening.what = "the agent on " + name(*behind) +
                     " was started anew while there was no controller, and its workers are gone";
    happening.happened_at = now;
    return happened(now, std::move(happening));
  }
  // Each agent does what is still to be done, and repeats what it has answered before.
  if (has_checkpoints() && !recovered.restoring) return become_inspecting(now);
  become_preparing(now);
}

/// They were started before this controller was: that is no news.
void Job::Impl::note_workers(Instant now, HostId host, const protocol::Hello& hello) {
  for (const auto& worker : hello.workers()) {
    protocol::WorkerStatus status;
    status.set_rank(worker.rank());
    status.set_pid(worker.pid());
    status.set_state(hello.phase() == protocol::HOST_TRAINING ? protocol::WORKER_RUNNING
                                                              : protocol::WORKER_STARTING);
    if (worker.has_step()) status.set_step(worker.step());
    ranks_.heard(host, status, now);
    if (worker.alive()) continue;
    std::optional<Step> step;
    if (worker.has_step()) step = Step{worker.step()};
    ranks_.ended(Rank{worker.rank()}, step, worker.finished());
  }
}

/// Where the workers have ended, perhaps while there was no controller to hear it.
void Job::Impl::note_parting(Instant now, HostId host, const protocol::Hello& hello) {
  const bool present = hello.generation() == generation_.value;
  if (present) note_workers(now, host, hello);
  if (!present || hello.aborted() || hello.workers().empty()) ranks_.host_ended(host);
  part_when_ended(now);
}

void Job::Impl::adopt_running(Instant now, const Recovered& recovered) {
  DL_PROBE("a running generation is adopted");
  record("generation_adopted", {}, {},
         std::to_string(plan_.members.size()) + " hosts, world size " +
             std::to_string(plan_.world_size) + ": no worker was started again",
         ranks_.step());
  // What hung before is a hang, and not the slow first step of a program that compiles.
  if (progressed_ || ranks_.step() > restore_step_) ranks_.stepped_before();
  enter_running(now);
  began_at_ = recovered.went.value_or(now);
  ranks_.taken_over();
  plan_checkpoint(std::max(*began_at_, recovered.committed_at.value_or(*began_at_)));
  note_progress(now);
  // A commit that is carried out already is only answered.
  for (const auto& commit : recovered.committing) {
    if (checkpoints_.is_committing(Step{commit.step()})) order_commit(now, commit);
  }
  end_when_done(now);
}

}  // namespace dlaunch::supervisor::job
