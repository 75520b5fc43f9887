// The checkpoint directory: what it holds, that all hosts see the same one, what is committed
// there.
#include <algorithm>
#include <utility>

#include "base/probe.h"
#include "base/units.h"
#include "supervisor/job/checkpoint_interval.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr nanoseconds kInspectLimit = 60s;   // a slow network file system's first answer
constexpr nanoseconds kDirectoryPause = 1s;  // before it is looked at again
constexpr nanoseconds kCommitLimit = 60s;    // one rename, on a network file system at its worst
constexpr std::size_t kUnwrittenMax = 100;   // a checkpoint each 30 s for 50 minutes

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

// ---- what it holds

/// Inspected anew for each generation: the host that holds the directory's lock may be gone, and
/// what the dying generation left is known only to the disk.
void Job::Impl::become_inspecting(Instant now) {
  Inspecting inspecting;
  inspecting.host = plan_.members.front().host;
  inspecting.due = now + kInspectLimit;
  state_ = inspecting;
  protocol::ControllerFrame frame;
  frame.mutable_inspect_checkpoints()->set_mark(mark());
  send({inspecting.host}, std::move(frame));
}

std::string Job::Impl::mark() const {
  return policy_.job_id + ".g" + std::to_string(generation_.value);
}

void Job::Impl::on_found(Instant now, HostId host, const protocol::CheckpointsFound& found) {
  const auto* inspecting = std::get_if<Inspecting>(&state_);
  if (inspecting == nullptr || inspecting->host != host || inspecting->marked) return;
  const auto& directory = policy_.checkpoint_directory;
  const auto refuse = [&](ExitCode code, std::string sentence) {
    become_ending(now, to_int(code), JobState::failed, std::move(sentence));
  };
  if (!found.error().empty()) {
    return on_directory_trouble(now, "the checkpoint directory cannot be used: " + found.error());
  }
  if (!found.locked_by().empty()) {
    return refuse(ExitCode::wrong_file, directory + " is in use by the job " + found.locked_by() +
                                            "; stop it first, or choose another directory");
  }
  for (const auto& damaged : found.damaged()) {
    exclude_checkpoint(host, {}, Step{damaged.step()}, damaged.reason());
  }
  if (must_be_empty_ && found.checkpoints_size() > 0) {
    return refuse(ExitCode::wrong_file,
                  "--fresh needs an empty directory, but " + directory + " holds step " +
                      std::to_string(found.checkpoints(found.checkpoints_size() - 1).step()));
  }
  std::vector<Step> steps;
  for (const auto& fact : found.checkpoints()) steps.push_back(Step{fact.step()});
  const auto before = checkpoints_.newest();
  checkpoints_.found(steps);
  if (before && found.checkpoints_size() + found.damaged_size() == 0) {
    checkpoints_.found({*before});
    return on_directory_trouble(now, directory + " is empty on " + name(host) + ", but step " +
                                         std::to_string(before->value) +
                                         " was there; is its file system mounted? If it was "
                                         "emptied on purpose, stop the job and start it again");
  }
  const auto newest = checkpoints_.newest();
  if (!newest && found.checkpoints_size() + found.damaged_size() > 0) {
    return refuse(ExitCode::storage,
                  "no checkpoint in " + directory +
                      " is whole; the job does not start over by itself: move them away to train "
                      "from the first step, or put a copy of one there");
  }
  for (const auto& fact : found.checkpoints()) {
    if (Step{fact.step()} != newest) continue;
    if (const auto differences = differences_of(fact); !differences.empty()) {
      return refuse(ExitCode::wrong_file, "the checkpoint " + directory + "/step-" +
                                              std::to_string(fact.step()) +
                                              " is of another run: " + join(differences) +
                                              "; use the same settings, or another directory");
    }
    if (const auto batches = logical_batches_of(fact.config())) logical_batches_ = batches;
  }
  must_be_empty_ = false;
  restore_step_ = newest;
  if (!best_step_ || (restore_step_ && *best_step_ < *restore_step_)) {
    best_step_ = restore_step_;
  }
  look_for_marks(now);
}

std::vector<std::string> Job::Impl::differences_of(const protocol::CheckpointFact& fact) const {
  auto differences = judge_match(policy_.trainer_settings, fact.config());
  if (data_.empty()) return differences;
  for (auto& difference :
       judge_match("{\"data\":" + data_ + "}", "{\"data\":" + fact.data() + "}")) {
    differences.push_back(std::move(difference));
  }
  return differences;
}

/// At the start it is a mistake that a person mends; later it was fine before and may be again.
void Job::Impl::on_directory_trouble(Instant now, std::string sentence) {
  auto& inspecting = std::get<Inspecting>(state_);
  record("storage_trouble", inspecting.host, {}, sentence);
  DL_PROBE("the checkpoint directory cannot be looked at");
  if (!best_step_ || ++free_retries_ > kFreeRetriesMax) {
    return become_ending(now, to_int(ExitCode::storage), JobState::failed, std::move(sentence));
  }
  inspecting.paused = true;
  inspecting.due =
      now + std::max<nanoseconds>(judge_pause("storage", free_retries_), kDirectoryPause);
  set_state(state_underway(), std::move(sentence) + "; it is looked at again");
}

void Job::Impl::exclude_checkpoint(HostId host, std::optional<Rank> rank, Step step,
                                   const std::string& reason) {
  if (checkpoints_.damaged(step)) record("checkpoint_damaged", host, rank, reason, step);
}

// ---- that all hosts see the same one

void Job::Impl::look_for_marks(Instant now) {
  auto& inspecting = std::get<Inspecting>(state_);
  inspecting.marked = true;
  inspecting.due = now + kInspectLimit;
  for (const auto host : members()) {
    if (host != inspecting.host) inspecting.awaited.insert(host);
  }
  if (inspecting.awaited.empty()) return become_preparing(now);
  protocol::ControllerFrame frame;
  frame.mutable_find_mark()->set_mark(mark());
  send({inspecting.awaited.begin(), inspecting.awaited.end()}, std::move(frame));
}

void Job::Impl::on_mark_looked(Instant now, HostId host, const protocol::MarkLooked& looked) {
  auto* inspecting = std::get_if<Inspecting>(&state_);
  if (inspecting == nullptr || inspecting->awaited.erase(host) == 0) return;
  if (!looked.error().empty()) inspecting->elsewhere[host] = looked.error();
  if (!inspecting->awaited.empty()) return;
  if (inspecting->elsewhere.empty()) return become_preparing(now);
  not_shared(now);
}

/// Before anything was trained a person mends it; later the hosts that lost their mount are left
/// out.
void Job::Impl::not_shared(Instant now) {
  const auto inspecting = std::get<Inspecting>(state_);
  std::string hosts;
  for (const auto& [host, error] : inspecting.elsewhere) {
    hosts += (hosts.empty() ? "" : "; ") + name(host) + ": " + error;
  }
  const auto sentence = "the checkpoint directory " + policy_.checkpoint_directory +
                        " is not the same on all hosts, as [checkpoint] storage = \"shared\" "
                        "needs; " +
                        name(inspecting.host) + " left a file in it, but on " + hosts +
                        "; mount one file system there on all of them";
  if (!best_step_) {
    return become_ending(now, to_int(ExitCode::storage), JobState::failed, sentence);
  }
  for (const auto& [host, error] : inspecting.elsewhere) {
    unusable_.insert(host);
    blame(now, host, "it does not see the checkpoint directory");
  }
  Happening happening;
  happening.weight = Weight::host_fact;
  happening.cause = "storage";
  happening.host = inspecting.elsewhere.begin()->first;
  happening.what = sentence;
  happening.happened_at = now;
  happened(now, std::move(happening));
}

void Job::Impl::on_inspecting_due(Instant now) {
  auto& inspecting = std::get<Inspecting>(state_);
  if (inspecting.paused) return become_inspecting(now);
  if (!inspecting.marked) {
    return on_directory_trouble(now, "the checkpoint directory " + policy_.checkpoint_directory +
                                         " could not be looked at in time; is its file system "
                                         "mounted and alive on " +
                                         name(inspecting.host) + "?");
  }
  for (const auto host : inspecting.awaited) {
    inspecting.elsewhere[host] = "no answer within " + format_duration(kInspectLimit);
  }
  inspecting.awaited.clear();
  not_shared(now);
}

// ---- what is committed there

void Job::Impl::plan_checkpoint(Instant from) {
  auto* running = std::get_if<Running>(&state_);
  if (running == nullptr || !has_checkpoints()) return;
  if (const auto* time = std::get_if<EveryTime>(&policy_.every)) {
    running->checkpoint_due = from + time->interval;
  } else if (std::holds_alternative<EveryAuto>(policy_.every)) {
    interval_ = judge_interval({checkpoints_.save_cost(), plan_.world_size,
                                std::max<nanoseconds>(from - started_, 0ns),
                                incidents_.count() - incidents_before_});
    running->checkpoint_due = from + interval_;
  }
}

void Job::Impl::on(Instant, const CheckpointAsked&) {
  if (!has_checkpoints() || !std::holds_alternative<Running>(state_)) return;
  protocol::ControllerFrame frame;
  frame.mutable_checkpoint_at();
  send_all(std::move(frame));
}

void Job::Impl::on_written(Instant, const protocol::Written& written) {
  // What is said again after an abort must not be committed in the generation that follows.
  const bool alive =
      std::holds_alternative<Running>(state_) || std::holds_alternative<Adopting>(state_);
  if (!alive) return;
  auto commit = checkpoints_.written(written);
  if (!commit) return;
  if (unwritten_.size() >= kUnwrittenMax) {
    checkpoints_.failed(Step{commit->step()});
    return record("storage_trouble", {}, {}, "run.db cannot be written, so no checkpoint can be",
                  Step{commit->step()});
  }
  const auto ticket = journal("committing", committing_row(generation_, *commit));
  commits_[ticket] = std::move(*commit);
}

void Job::Impl::on_committed(Instant now, HostId host, const protocol::Committed& committed) {
  const Step step{committed.step()};
  if (!committed.error().empty()) {
    checkpoints_.failed(step);
    commit_answered();
    last_commit_error_ = committed.error();
    DL_PROBE("a checkpoint cannot be committed");
    record("storage_trouble", host, {}, committed.error(), step);
    return end_when_done(now);
  }
  if (!checkpoints_.is_news(step)) return;
  last_commit_error_.clear();
  checkpoints_.committed(step);
  commit_answered();
  ranks_.reached(step);
  note_progress(now);
  budget_.give_back();
  record("checkpoint_committed", host, {}, "", step);
  (void)journal("committed",
                committed_row(step, best_step_.value_or(step), now, checkpoints_.save_cost()));
  plan_checkpoint(now);
  end_when_done(now);
  if (!regroup_reason_.empty() && std::holds_alternative<Running>(state_) && !stop_) {
    regroup(now, std::exchange(regroup_reason_, ""));
  }
}

/// Its time runs for as long as any order to commit is unanswered.
void Job::Impl::commit_answered() {
  auto* running = std::get_if<Running>(&state_);
  if (running != nullptr && !checkpoints_.is_committing()) running->commit_due.reset();
}

/// The record of what is to be committed is on disk.
void Job::Impl::order_commit(Instant now, const protocol::Commit& commit) {
  if (auto* running = std::get_if<Running>(&state_)) running->commit_due = now + kCommitLimit;
  protocol::ControllerFrame frame;
  *frame.mutable_commit() = commit;
  send({plan_.members.front().host}, std::move(frame));
}

}  // namespace dlaunch::supervisor::job
