// A running generation: progress, checkpoints, stopping, the end.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/mutant.h"
#include "base/probe.h"
#include "base/units.h"
#include "protocol/json_text.h"
#include "supervisor/job/checkpoint_interval.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

using nlohmann::json;

constexpr nanoseconds kLookEvery = 250ms;  // a hang is named within its threshold + this
constexpr nanoseconds kStopSlack = 10s;    // a running step's end and the write, beside the grace
constexpr nanoseconds kEndLimit = 3s;      // the end is said even if the disk hangs
constexpr nanoseconds kLastCommitLimit = 60s;  // one rename, on a network file system at its worst

}  // namespace

void Job::Impl::become_running(Instant now) {
  protocol::ControllerFrame frame;
  frame.mutable_go();
  send_all(std::move(frame));
  (void)journal("running", running_row(generation_, now, master_port_));
  enter_running(now);
}

/// They run: they have just been told to go, or a controller that was started again finds them so.
void Job::Impl::enter_running(Instant now) {
  Running running;
  running.look_due = now + kLookEvery;
  state_ = running;
  ranks_.go(now);
  running_since_ = began_at_ = now;
  set_state(stop_ ? JobState::stopping : JobState::running, stop_ ? stop_->reason : "");
  plan_checkpoint(now);
  if (stop_) {
    order_stop(now);
  } else if (!regroup_reason_.empty()) {
    on(now, RegroupAsked{std::exchange(regroup_reason_, "")});
  }
  if (!policy_.trainer && incidents_.is_open()) {
    // Without a source of steps the generation counts as recovered once its processes run.
    incidents_.close(now);
    journal_incident();
    incident_changed();
  }
}

void Job::Impl::on(Instant now, const FromAgent& e) {
  const auto& frame = e.frame;
  if (frame.has_evidence()) return on_evidence(now, e.host, frame);
  if (frame.has_workers_gone()) on_workers_gone(now, e.host);
  // Nothing of this or an older generation is left there, whoever ordered the newer one.
  if (frame.has_workers_gone() && frame.generation() > generation_.value && is_member(e.host)) {
    return on_abort_answer(now, e.host, true);
  }
  // The one fence: what is not about the present generation is over or not begun.
  const bool foreign = frame.generation() != generation_.value || !is_member(e.host);
  if (foreign && !DL_MUTANT("job_fence_removed")) return;
  switch (frame.body_case()) {
    case protocol::AgentFrame::kHeartbeat:
      return on_heartbeat(now, e.host, frame.heartbeat());
    case protocol::AgentFrame::kPrepared:
      return on_prepared(now, e.host, frame.prepared());
    case protocol::AgentFrame::kConnected:
      return on_connected(now, e.host);
    case protocol::AgentFrame::kRestored:
      return on_restored(now, e.host, frame.restored());
    case protocol::AgentFrame::kAbortAcknowledged:
      return on_abort_answer(now, e.host, false);
    case protocol::AgentFrame::kWorkersGone:
      return on_abort_answer(now, e.host, true);
    case protocol::AgentFrame::kParked:
      return record("parked", e.host, Rank{frame.parked().rank()});
    case protocol::AgentFrame::kWritten:
      return on_written(now, frame.written());
    case protocol::AgentFrame::kCommitted:
      return on_committed(now, e.host, frame.committed());
    case protocol::AgentFrame::kCheckpointsFound:
      return on_found(now, e.host, frame.checkpoints_found());
    case protocol::AgentFrame::kMarkLooked:
      return on_mark_looked(now, e.host, frame.mark_looked());
    default:
      return;
  }
}

void Job::Impl::on_heartbeat(Instant now, HostId host, const protocol::Heartbeat& heartbeat) {
  for (const auto& status : heartbeat.workers()) {
    note_start(host, Rank{status.rank()}, status.pid());
    ranks_.heard(host, status, now);
  }
  note_progress(now);
}

/// Told by a heartbeat, or first by the end of one that did not live long enough for that.
void Job::Impl::note_start(HostId host, Rank rank, std::uint32_t pid) {
  const auto known = ranks_.all().find(rank);
  if (pid == 0 || known == ranks_.all().end() || known->second.host != host ||
      known->second.status.pid() == pid) {
    return;
  }
  record("worker_started", host, rank, "pid " + std::to_string(pid));
  ranks_.started(rank, pid);
}

/// The first new step closes the incident; `best_step_` never goes back. What a generation did just
/// before it broke counts, but closes nothing.
void Job::Impl::note_progress(Instant now) {
  const bool running = std::holds_alternative<Running>(state_);
  if (!running && !std::holds_alternative<Aborting>(state_)) return;
  const auto step = ranks_.step();
  if (!step || *step <= restore_step_.value_or(Step{})) return;
  advanced_ = true;
  if (*step <= best_step_.value_or(Step{})) return;
  best_step_ = step;
  const bool first = !std::exchange(progressed_, true);
  if (!first || !running) return;
  (void)journal("progressed",
                json{{"generation", generation_.value}, {"best_step", step->value}}.dump());
  record("first_step", {}, {}, "", step);
  if (incidents_.is_open()) {
    incidents_.close(now);
    journal_incident();
    incident_changed();
  }
}

void Job::Impl::look_for_hang(Instant now) {
  auto& running = std::get<Running>(state_);
  const HangLimits limits{policy_.hang_floor, policy_.checkpoint_limit, policy_.start_limit,
                          policy_.has_steps};
  running.look_due = now + kLookEvery;
  if (const auto due = hang_deadline(ranks_, limits)) {
    running.look_due = std::max(running.look_due, *due);
  }
  if (auto hang = judge_hang(ranks_, limits, now); hang && !DL_MUTANT("hang_not_judged")) {
    DL_PROBE("a hang is found");
    hang->what = name(*hang->host) + ": " + hang->what;
    happened(now, std::move(*hang));
  }
}

void Job::Impl::on(Instant now, const StepsUntil& e) {
  auto* running = std::get_if<Running>(&state_);
  if (running == nullptr) return;
  ranks_.go(e.until);
  running->look_due = std::max(now + kLookEvery, e.until);
}

// ---- stopping and ending

void Job::Impl::on(Instant now, const StopAsked& e) {
  const bool again = stop_.has_value();
  if (!again || e.now) stop_ = e;
  if (e.now) {
    return become_ending(now, to_int(ExitCode::stopped_now), JobState::stopped,
                         "stopped at once: " + e.reason);
  }
  if (again) return;
  stop_ticket_ =
      journal("stopping", protocol::json_text({{"reason", e.reason}, {"preempted", e.preempted}}));
  if (std::holds_alternative<Adopting>(state_)) return set_state(JobState::stopping, e.reason);
  if (const auto* forming = std::get_if<Forming>(&state_);
      forming != nullptr && forming->give_up_at) {
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         "stopped while it waited for hosts: " + e.reason);
  }
  if (std::holds_alternative<Gathering>(state_) || std::holds_alternative<MakingSure>(state_) ||
      std::holds_alternative<Pausing>(state_) ||
      (!policy_.trainer && !std::holds_alternative<Running>(state_) &&
       !std::holds_alternative<Parting>(state_))) {
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped, "stopped: " + e.reason);
  }
  if (const auto disk = checkpoints_.newest();
      disk && has_checkpoints() && !std::holds_alternative<Running>(state_)) {
    // Nothing newer than the disk's state exists, so nothing would be won by starting workers.
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         std::string(e.preempted ? "preempted" : "stopped on request") +
                             " at step " + std::to_string(disk->value) +
                             "; the same command goes on from there");
  }
  set_state(JobState::stopping, e.reason);
}

/// Once the wish is on disk, or at once where the disk is full.
void Job::Impl::order_stop(Instant now) {
  const bool waits = unwritten_.contains(stop_ticket_) && !journal_due_;
  if (!std::holds_alternative<Running>(state_) || waits) return;
  auto& running = std::get<Running>(state_);
  if (running.stop_due) return;
  const auto step = from_seconds(3 * ranks_.step_seconds());
  running.stop_due = now + policy_.stop_grace + step + kStopSlack;
  running.stop_due_max = now + (stop_->preempted ? 0ns : policy_.checkpoint_limit);
  stop_workers();
}

void Job::Impl::stop_workers() {
  protocol::ControllerFrame frame;
  auto& order = *frame.mutable_stop_workers();
  order.set_checkpoint(has_checkpoints());
  order.set_grace_ms(static_cast<std::uint32_t>(policy_.stop_grace / 1ms));
  send_all(std::move(frame));
}

/// A program has its grace: it may write down where it is. An agent that was told before a restart
/// of the controller goes on with what it began.
void Job::Impl::become_parting(Instant now, std::string reason) {
  set_state(stop_ ? JobState::stopping : JobState::recovering, reason);
  state_ = Parting{now + policy_.stop_grace + kStopSlack, std::move(reason)};
  stop_workers();
  part_when_ended(now);
}

void Job::Impl::part_when_ended(Instant now) {
  const auto* parting = std::get_if<Parting>(&state_);
  if (parting == nullptr || !ranks_.all_ended()) return;
  if (stop_) {
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         "stopped: " + stop_->reason);
  }
  if (ranks_.all_finished()) {  // by themselves, just before they were asked
    record("job_finished", {}, {}, "", ranks_.step());
    return become_ending(now, to_int(ExitCode::finished), JobState::finished, "finished");
  }
  become_aborting(now, std::string(parting->reason));
}

void Job::Impl::end_when_done(Instant now) {
  auto* running = std::get_if<Running>(&state_);
  if (running == nullptr || !ranks_.all_finished()) return;
  auto step = ranks_.step();
  // Without a stop they have done all steps, whatever the last heartbeat said; with one, perhaps
  // none since they restored, and a checkpoint of that is written too.
  if (policy_.trainer) {
    step = stop_ ? step.value_or(restore_step_.value_or(Step{}))
                 : std::max(step.value_or(Step{}), Step{policy_.steps});
  }
  const bool saved =
      !has_checkpoints() || !step || (checkpoints_.newest() && *checkpoints_.newest() >= *step);
  if (!saved) {
    if (!last_commit_error_.empty()) {
      return become_ending(now, to_int(ExitCode::storage), JobState::failed,
                           "the last checkpoint could not be committed: " + last_commit_error_);
    }
    if (!running->end_due) running->end_due = now + kLastCommitLimit;
    return;
  }
  const bool complete = !policy_.trainer || !step || step->value >= policy_.steps;
  const auto at = checkpoints_.newest() ? " at step " + std::to_string(checkpoints_.newest()->value)
                                        : std::string();
  if (stop_ && !(policy_.trainer && complete)) {
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         std::string(stop_->preempted ? "preempted" : "stopped on request") + at +
                             "; the same command goes on from there");
  }
  record("job_finished", {}, {}, "", step);
  become_ending(now, to_int(ExitCode::finished), JobState::finished, "finished" + at);
}

void Job::Impl::on(Instant now, const RegroupAsked& e) {
  if (stop_) return;
  const bool running = std::holds_alternative<Running>(state_);
  const bool formed =
      running || std::holds_alternative<Journaling>(state_) ||
      std::holds_alternative<Inspecting>(state_) || std::holds_alternative<Preparing>(state_) ||
      std::holds_alternative<Joining>(state_) || std::holds_alternative<Adopting>(state_);
  if (!formed) return;  // the generation to come takes care of it
  if (running && !has_checkpoints()) return regroup(now, e.reason);
  regroup_reason_ = e.reason;
  if (running) on(now, CheckpointAsked{});
}

void Job::Impl::become_ending(Instant now, int code, JobState state, std::string sentence) {
  if (incidents_.is_open()) {
    if (incidents_.present().verdict.empty()) incidents_.verdict("stop", sentence);
    incidents_.give_up(now);
    incident_changed();
  }
  set_state(state, sentence);
  if (state == JobState::stopped) record("job_stopped", {}, {}, sentence, best_step_);
  if (state == JobState::failed) record("job_failed", {}, {}, sentence, best_step_);
  const auto ticket = journal(
      "ended",
      protocol::json_text({{"code", code}, {"state", to_string(state)}, {"sentence", sentence}}));
  state_ = Ending{ticket, now + kEndLimit, Finish{code, state, std::move(sentence)}};
}

void Job::Impl::become_over() {
  auto finish = std::get<Ending>(state_).finish;
  state_ = Over{};
  out_.push_back(std::move(finish));
}

// ---- time

void Job::Impl::on(Instant now, const DeadlineDue&) {
  const auto due = next_deadline();
  if (!due || now < *due) return;
  if (std::holds_alternative<Ending>(state_)) return become_over();
  if (journal_due_ && now >= *journal_due_) return retry_journal(now);
  if (const auto broken = links_.next_deadline(); broken && now >= *broken) {
    return on_links_broken(now);
  }
  if (std::holds_alternative<Inspecting>(state_)) return on_inspecting_due(now);
  if (std::holds_alternative<Pausing>(state_)) return become_forming(now, "the pause is over");
  if (std::holds_alternative<MakingSure>(state_)) {
    return become_forming(now, "the lease of the lost hosts is over");
  }
  if (const auto* forming = std::get_if<Forming>(&state_)) {
    return become_ending(now, to_int(ExitCode::hosts_missing), JobState::failed,
                         "gave up after waiting " + format_duration(policy_.wait_for_host) +
                             " for hosts: " + forming->missing);
  }
  if (const auto* preparing = std::get_if<Preparing>(&state_)) {
    std::set<HostId> answered;
    for (const auto& [host, answer] : preparing->prepared) answered.insert(host);
    return on_start_overdue(now, answered, "were not ready");
  }
  if (const auto* joining = std::get_if<Joining>(&state_)) {
    return on_start_overdue(now, std::set<HostId>(joining->restored),
                            "had not connected and restored");
  }
  if (auto* running = std::get_if<Running>(&state_)) return on_running_due(now, *running);
  if (const auto* parting = std::get_if<Parting>(&state_)) {
    return become_aborting(now, std::string(parting->reason));
  }
  settle_abort(now);
}

void Job::Impl::on_running_due(Instant now, Running& running) {
  const auto due = [now](std::optional<Instant> deadline) { return deadline && now >= *deadline; };
  if (due(running.stop_due)) {
    // A checkpoint that is being written is what the stop waits for.
    const bool saving = ranks_.is_saving() || checkpoints_.is_committing();
    if (saving && now < running.stop_due_max) {
      running.stop_due = std::min(running.stop_due_max, now + kStopSlack);
      return;
    }
    const auto disk = checkpoints_.newest();
    const bool lost = policy_.trainer && !disk;
    return become_ending(now, to_int(lost ? ExitCode::storage : ExitCode::stopped),
                         lost ? JobState::failed : JobState::stopped,
                         "the workers did not stop in time and were ended; " +
                             (disk ? "the newest checkpoint is step " + std::to_string(disk->value)
                                   : std::string("there is no checkpoint")));
  }
  if (due(running.end_due)) {
    return become_ending(now, to_int(ExitCode::storage), JobState::failed,
                         "all ranks are done, but the last checkpoint was not committed in time");
  }
  if (due(running.commit_due)) {
    running.commit_due.reset();
    last_commit_error_ = "its host did not answer in time";
    checkpoints_.give_up();
    record("storage_trouble", plan_.members.front().host, {}, last_commit_error_);
    return end_when_done(now);
  }
  if (due(running.checkpoint_due)) {
    plan_checkpoint(now);
    on(now, CheckpointAsked{});
  }
  if (now >= running.look_due) look_for_hang(now);
}

}  // namespace dlaunch::supervisor::job
