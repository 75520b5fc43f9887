// Evidence, incident, verdict: what happens when something breaks.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/mutant.h"
#include "base/probe.h"
#include "base/units.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr nanoseconds kLivedEnough = 10min;  // a program without a source of progress

nanoseconds duration_of(double seconds) {
  return nanoseconds(std::llround(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

}  // namespace

void Job::Impl::on_evidence(Instant now, HostId host, const protocol::AgentFrame& frame) {
  const auto& evidence = frame.evidence();
  const auto number = evidence.number();
  auto& seen = evidence_seen_[host];
  if (number <= seen) return acknowledge(host, number);
  seen = number;
  if (evidence.has_link_changed()) {
    on_link(now, host, evidence);
  }
  const bool present = frame.generation() == generation_.value && is_member(host);
  const bool late =
      frame.generation() < generation_.value && incidents_.covers(Generation{frame.generation()});
  if (!present && !late) return acknowledge(host, number);
  std::optional<Happening> happening;
  if (evidence.has_worker_exited()) {
    const auto& exited = evidence.worker_exited();
    if (present) note_start(host, Rank{exited.rank()}, exited.pid());
    record("worker_exited", host, Rank{exited.rank()},
           exited.signal() != 0 ? signal_name(exited.signal())
                                : "exit code " + std::to_string(exited.code()));
    happening = judge_exit(exited, name(host), policy_.trainer);
    if (happening && is_port_conflict(exited, master_port_)) happening->cause = "port_conflict";
    if (present) note_exit(exited, !happening);
  } else if (evidence.has_worker_failing()) {
    const auto& failing = evidence.worker_failing();
    happening = judge_failing(failing, name(host));
    if (present && failing.category() == kCheckpointDamaged && restore_step_) {
      exclude_checkpoint(host, Rank{failing.rank()}, *restore_step_, failing.reason());
    } else if (happening->cause == "storage") {
      record("storage_trouble", host, Rank{failing.rank()}, failing.reason());
    }
  } else if (evidence.has_finding()) {
    const auto& finding = evidence.finding();
    if (present && finding.kind() == "other_numerics") {
      not_exact(host, Rank{finding.rank()}, finding.sentence());
    }
    happening = judge_finding(finding, name(host));
    if (happening && present && finding.kind() == "undead") {
      unusable_.insert(host);
      blame(now, host, finding.sentence());
    }
  }
  if (!happening) {
    acknowledge(host, number);
    if (!present) return;
    part_when_ended(now);
    return end_when_done(now);
  }
  // Not before what it brought about is on disk: a controller that dies before hears it again.
  owe(host, number, kNextRow);
  happening->host = host;
  happening->happened_at = now - duration_of(evidence.seconds_ago());
  if (present) return happened(now, std::move(*happening));
  // It may explain the incident better than what was known; what is done stays as it is.
  incidents_.add(std::move(*happening), Generation{frame.generation()}, now);
  judge_cause_now();
}

/// An end that is no fault counts to the end of the job, unless an abort brought it about.
void Job::Impl::note_exit(const protocol::WorkerExited& exited, bool no_fault) {
  std::optional<Step> step;
  if (exited.has_step()) step = Step{exited.step()};
  const bool by_stop = stop_ && exited.ordered() && !has_checkpoints();
  ranks_.ended(Rank{exited.rank()}, step, no_fault && (!exited.ordered() || by_stop));
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::HostLost& e) {
  forget_path(now, e.host);
  if (!is_member(e.host)) return;
  may_still_run(now, e.host);
  ranks_.host_gone(e.host);
  Happening happening;
  happening.weight = Weight::host_fact;
  happening.cause = "host_lost";
  happening.host = e.host;
  happening.what = name(e.host) + " is lost: " + e.sentence;
  happening.happened_at = e.last_heard;
  happened(now, std::move(happening));
  blame(now, e.host, e.sentence);
}

void Job::Impl::may_still_run(Instant now, HostId host) {
  if (policy_.trainer) return;
  auto until = now + policy_.lease + policy_.stop_grace;
  // It has heard of no controller since an earlier one began to count.
  if (const auto before = unsure_before_.find(host); before != unsure_before_.end()) {
    until = std::min(until, before->second);
  }
  unsure_[host] = until;
  (void)journal("unsure", until_row(host, until));
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::AgentGone& e) {
  evidence_seen_.erase(e.host);  // a new agent counts from 1
  owed_.erase(e.host);
  if (links_.forget(e.host)) links_are_up(e.host);  // and looks anew
  on_stop_confirmed(now, e.host);
  if (!is_member(e.host)) return;
  ranks_.host_gone(e.host);
  Happening happening;
  happening.weight = Weight::agent;
  happening.cause = "agent_lost";
  happening.host = e.host;
  happening.what = "the agent on " + name(e.host) +
                   " was gone and its workers with it; its holder "
                   "started another";
  happening.happened_at = e.closed_at;
  happened(now, std::move(happening));
}

/// The first fatal evidence aborts at once, before anything is written anywhere; more joins in.
void Job::Impl::happened(Instant now, Happening happening) {
  const bool active =
      std::holds_alternative<Preparing>(state_) || std::holds_alternative<Joining>(state_) ||
      std::holds_alternative<Running>(state_) || std::holds_alternative<Inspecting>(state_) ||
      std::holds_alternative<Journaling>(state_) || std::holds_alternative<Adopting>(state_) ||
      std::holds_alternative<Parting>(state_);
  const bool aborting = std::holds_alternative<Aborting>(state_);
  if (!active && !aborting) {
    // Known only after the abort: it explains the incident, the coordinator deals with the rest.
    if (!incidents_.is_open()) return pay(kNextRow);
    DL_PROBE("evidence comes after the abort");
    incidents_.add(std::move(happening), generation_, now);
    return judge_cause_now();
  }
  const auto dead_host = happening.cause == "host_lost" || happening.cause == "agent_lost"
                             ? happening.host
                             : std::nullopt;
  const bool opens = !incidents_.is_open();
  const auto reason = happening.what;
  const auto rank = happening.rank;
  const auto host = happening.host;
  if (active) become_aborting(now, reason);
  incidents_.add(std::move(happening), generation_, now);
  if (opens) record("incident_opened", host, rank, reason);
  if (active) {
    const auto open = incidents_.saved();
    const auto ticket = journal("broken", broken_row(generation_, reason, &open, advanced_));
    for (auto& [debtor, owed] : owed_) {
      if (owed.ticket == kNextRow) owed.ticket = ticket;
    }
  }
  auto& abort = std::get<Aborting>(state_);
  if (!abort.judge_due && active) abort.judge_due = now + policy_.cause_window;
  if (dead_host) abort.excuse(*dead_host);
  if (aborting && !abort.judge_due) {
    DL_PROBE("evidence comes late during the abort");
    judge_cause_now();
  }
  incident_changed();
  settle_abort(now);
}

void Job::Impl::become_aborting(Instant now, const std::string& reason) {
  // Before its row is on disk nobody has heard of a generation, and nobody may: a controller that
  // is started again would not know the number, and agents that do would not obey it.
  const bool known = !std::holds_alternative<Journaling>(state_);
  auto told = members();
  if (DL_MUTANT("abort_not_to_all")) told.pop_back();
  protocol::ControllerFrame frame;
  frame.mutable_abort()->set_reason(reason);
  if (known) send(std::move(told), std::move(frame));
  record("abort_ordered", {}, {}, reason);
  commits_.clear();
  incidents_.begin_round();
  Aborting aborting;
  aborting.began = aborting.answered = now;
  aborting.due = now + policy_.abort_deadline;
  const auto hosts = members();
  auto& awaited = known ? aborting.unheard : aborting.acknowledged;
  awaited.insert(hosts.begin(), hosts.end());
  (known ? aborting.unclean : aborting.gone) = awaited;
  state_ = std::move(aborting);
  set_state(stop_ ? JobState::stopping : JobState::recovering, reason);
}

/// A planned end is known to a further incarnation before any worker is: it needs no incident.
void Job::Impl::regroup(Instant, std::string reason) {
  regroup_ticket_ = journal("broken", broken_row(generation_, reason, nullptr, advanced_));
  regroup_order_ = std::move(reason);
}

void Job::Impl::on_abort_answer(Instant now, HostId host, bool gone) {
  auto* aborting = std::get_if<Aborting>(&state_);
  if (aborting == nullptr) return;
  if (aborting->acknowledged.insert(host).second) aborting->answered = now;
  aborting->unheard.erase(host);
  if (gone) {
    aborting->gone.insert(host);
    aborting->unclean.erase(host);
    ranks_.host_gone(host);
  }
  settle_abort(now);
}

/// A host that was left out because it could not be cleaned is clean after all.
void Job::Impl::on_workers_gone(Instant now, HostId host) {
  on_stop_confirmed(now, host);
  unusable_.erase(host);
  if (excluded_.erase(host) == 0) return;
  DL_PROBE("a host that was left out is clean after all");
  out_.push_back(CleanedHost{host});
  if (std::holds_alternative<Forming>(state_)) {
    out_.push_back(Form{excluded_, "the workers on " + name(host) + " are gone after all"});
  }
}

void Job::Impl::judge_cause_now() {
  if (!incidents_.is_open()) return;
  if (incidents_.judge()) {
    const auto& cause = incidents_.cause();
    record("cause_revised", cause.host, cause.rank, cause.cause + ": " + cause.what);
  }
  journal_incident();
  incident_changed();
}

void Job::Impl::settle_abort(Instant now) {
  auto* aborting = std::get_if<Aborting>(&state_);
  if (aborting == nullptr) return;
  if (aborting->unheard.empty() && !std::exchange(aborting->said_aborted, true)) {
    // Waiting for the successor of an agent that could not answer is part of what comes next.
    record("aborted", {}, {}, "after " + format_duration(aborting->answered - aborting->began));
    incidents_.aborted(aborting->answered);
  }
  if (aborting->judge_due && now >= *aborting->judge_due) {
    judge_cause_now();
    aborting->judge_due.reset();
  }
  const bool gone = aborting->unclean.empty() || DL_MUTANT("gone_not_awaited");
  if (!gone && now < aborting->due) return;
  if (!gone) {
    for (const auto host : members()) {
      if (!aborting->unclean.contains(host)) continue;
      DL_PROBE("a host cannot be cleaned in time");
      unusable_.insert(host);
      record("host_unusable", host, {},
             "its workers were not gone within " + format_duration(policy_.abort_deadline));
      blame(now, host, "its workers could not be ended in time");
      // No order reached it: a program there ends by its lease, as that of a lost host.
      if (!aborting->acknowledged.contains(host)) may_still_run(now, host);
    }
    incidents_.aborted(now);
  }
  record("workers_stopped", {}, {}, "after " + format_duration(now - aborting->began));
  for (const auto host : aborting->gone) out_.push_back(CleanedHost{host});
  if (aborting->judge_due) judge_cause_now();
  decide(now);
}

/// All workers are gone: is it tried again?
void Job::Impl::decide(Instant now) {
  if (stop_ && !policy_.trainer) {
    // There is no checkpoint of ours for which it would have to run once more.
    if (incidents_.has_happened()) incidents_.verdict("stop", "the job stops, as it was asked to");
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         "stopped: " + stop_->reason);
  }
  // The open incident may be one of before that still waits for its first new step.
  if (!incidents_.has_happened()) {
    DL_PROBE("a planned regroup");
    return become_forming(now, "a planned regroup");
  }
  blame_host(now);
  const auto inputs = count_failure(now);
  if (const auto refusal = judge_retry(inputs)) {
    if (inputs.users_error) {
      incidents_.call("user_error");
      record("cause_revised", inputs.cause.host, inputs.cause.rank,
             "user_error: " + inputs.cause.what);
    }
    incidents_.verdict("stop", "the job stops: " + refusal->sentence);
    DL_PROBE("it is not tried again");
    const auto& incident = incidents_.present();
    record("verdict", incident.host, incident.rank, "stop: " + refusal->sentence);
    return become_ending(now, refusal->code, JobState::failed, incident.sentence);
  }
  if (!is_free(inputs.cause.cause)) (void)budget_.spend(now);
  const auto pause = judge_pause(inputs.cause.cause, free_retries_);
  if (pause > 0ns) return become_pausing(now + pause);
  become_forming(now, inputs.cause.what);
}

void Job::Impl::blame_host(Instant now) {
  const auto& cause = incidents_.cause();
  if (!cause.host) return;
  // A device does not mend itself by a restart; what a network library says may be another's fault.
  if (cause.cause == "gpu_fault" || cause.cause == "nccl_error") {
    blame(now, *cause.host, cause.what, cause.cause == "gpu_fault");
  }
  if (cause.cause != "worker_crashed") return;
  if (!crashes_.crashed(*cause.host, now)) return;
  blame(now, *cause.host,
        "workers crashed there " + std::to_string(CrashWatch::kCrashesMin) + " times within " +
            format_duration(CrashWatch::kWindow) + " and on no other host",
        true);
}

void Job::Impl::blame(Instant now, HostId host, const std::string& reason, bool beyond_doubt) {
  if (!blamed_.insert({host, beyond_doubt}).second) return;
  out_.push_back(BlamedHost{host, reason, beyond_doubt});
  (void)journal("blamed", blamed_row({host, generation_, now, beyond_doubt, reason}, names()));
}

RetryInputs Job::Impl::count_failure(Instant now) {
  RetryInputs inputs;
  inputs.trainer = policy_.trainer;
  inputs.cause = incidents_.cause();
  inputs.without_progress_max = policy_.no_progress_generations;
  inputs.restarts_max = policy_.process_restarts_max;
  inputs.restarts_left = budget_.left(now);
  inputs.restarts_window = policy_.restarts_window;
  const bool lived = began_at_ && now - *began_at_ >= kLivedEnough;
  const bool progress = advanced_ || (!policy_.trainer && lived);
  if (progress) without_progress_ = free_retries_ = 0;
  if (is_free(inputs.cause.cause)) {
    inputs.free_retries = ++free_retries_;
    return inputs;
  }
  if (!progress) ++without_progress_;
  inputs.without_progress = without_progress_;
  const auto& lines = inputs.cause.last_lines;
  const auto lived_for = began_at_ ? inputs.cause.happened_at - *began_at_ : 0ns;
  inputs.users_error =
      user_error_.judge({inputs.cause.code, inputs.cause.signal, lines.empty() ? "" : lines.back(),
                         lived_for, ranks_.step()});
  return inputs;
}

}  // namespace dlaunch::supervisor::job
