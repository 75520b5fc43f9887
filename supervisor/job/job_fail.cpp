// Evidence, incident, verdict: what happens when something breaks.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/units.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

nanoseconds duration_of(double seconds) {
  return nanoseconds(std::llround(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

}  // namespace

void Job::Impl::on_evidence(Instant now, HostId host, const protocol::AgentFrame& frame) {
  const auto& evidence = frame.evidence();
  protocol::ControllerFrame acknowledged;
  acknowledged.mutable_evidence_acknowledged()->set_number(evidence.number());
  send({host}, std::move(acknowledged));
  auto& seen = evidence_seen_[host];
  if (evidence.number() <= seen) return;
  seen = evidence.number();
  if (evidence.has_link_changed()) {
    const auto& link = evidence.link_changed();
    record(link.up() ? "link_up" : "link_down", host, {}, link.interface());
  }
  if (frame.generation() != generation_.value || !is_member(host)) return;
  std::optional<Happening> happening;
  if (evidence.has_worker_exited()) {
    const auto& exited = evidence.worker_exited();
    record("worker_exited", host, Rank{exited.rank()},
           exited.signal() != 0 ? signal_name(exited.signal())
                                : "exit code " + std::to_string(exited.code()));
    happening = judge_exit(exited, name(host), policy_.trainer);
    const bool ended_by_stop = stop_ && exited.ordered() && !policy_.trainer;
    if (!happening && (!exited.ordered() || ended_by_stop)) {
      ranks_.finished(Rank{exited.rank()});
      return end_when_done(now);
    }
  } else if (evidence.has_worker_failing()) {
    happening = judge_failing(evidence.worker_failing(), name(host));
  } else if (evidence.has_finding()) {
    happening = judge_finding(evidence.finding(), name(host));
    if (happening && evidence.finding().kind() == "undead") {
      unusable_.insert(host);
      out_.push_back(BlamedHost{host, evidence.finding().sentence()});
    }
  }
  if (!happening) return;
  happening->host = host;
  happening->happened_at = now - duration_of(evidence.seconds_ago());
  happened(now, std::move(*happening));
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::HostLost& e) {
  if (!policy_.trainer) unsure_[e.host] = now + policy_.lease + policy_.stop_grace;
  if (!is_member(e.host)) return;
  Happening happening;
  happening.weight = Weight::host_fact;
  happening.cause = "host_lost";
  happening.host = e.host;
  happening.what = name(e.host) + " is lost: " + e.sentence;
  happening.happened_at = e.last_heard;
  happened(now, std::move(happening));
  out_.push_back(BlamedHost{e.host, e.sentence});
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::AgentGone& e) {
  evidence_seen_.erase(e.host);
  unsure_.erase(e.host);
  if (!is_member(e.host)) return;
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
      std::holds_alternative<Journaling>(state_);
  const bool aborting = std::holds_alternative<Aborting>(state_);
  if (!active && !aborting) {
    // Known only after the abort: it explains the incident, the coordinator deals with the rest.
    if (!incidents_.is_open()) return;
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
  auto& abort = std::get<Aborting>(state_);
  if (!abort.judge_due && active) abort.judge_due = now + policy_.cause_window;
  if (dead_host) {
    abort.acknowledged.insert(*dead_host);
    abort.gone.insert(*dead_host);
  }
  if (aborting && !abort.judge_due) judge_cause_now();
  incident_changed();
  settle_abort(now);
}

void Job::Impl::become_aborting(Instant now, const std::string& reason) {
  protocol::ControllerFrame frame;
  frame.mutable_abort()->set_reason(reason);
  send_all(std::move(frame));
  record("abort_ordered", {}, {}, reason);
  commits_.clear();
  Aborting aborting;
  aborting.began = now;
  aborting.due = now + policy_.abort_deadline;
  state_ = std::move(aborting);
  set_state(stop_ ? JobState::stopping : JobState::recovering, reason);
}

void Job::Impl::on_abort_answer(Instant now, HostId host, bool gone) {
  auto* aborting = std::get_if<Aborting>(&state_);
  if (aborting == nullptr) return;
  aborting->acknowledged.insert(host);
  if (gone) aborting->gone.insert(host);
  settle_abort(now);
}

void Job::Impl::judge_cause_now() {
  if (!incidents_.is_open()) return;
  if (incidents_.judge()) {
    const auto& cause = incidents_.cause();
    record("cause_revised", cause.host, cause.rank, cause.cause + ": " + cause.what);
  }
  incident_changed();
}

void Job::Impl::settle_abort(Instant now) {
  auto* aborting = std::get_if<Aborting>(&state_);
  if (aborting == nullptr) return;
  const auto hosts = members();
  const auto all = [&](const std::set<HostId>& answered) {
    return std::all_of(hosts.begin(), hosts.end(),
                       [&](HostId host) { return answered.contains(host); });
  };
  if (all(aborting->acknowledged) && !std::exchange(aborting->said_aborted, true)) {
    record("aborted", {}, {}, "after " + format_duration(now - aborting->began));
    incidents_.aborted(now);
  }
  if (aborting->judge_due && now >= *aborting->judge_due) {
    judge_cause_now();
    aborting->judge_due.reset();
  }
  const bool gone = all(aborting->gone);
  if (!gone && now < aborting->due) return;
  if (!gone) {
    for (const auto host : hosts) {
      if (aborting->gone.contains(host)) continue;
      unusable_.insert(host);
      record("host_unusable", host, {},
             "its workers were not gone within " + format_duration(policy_.abort_deadline));
      out_.push_back(BlamedHost{host, "its workers could not be ended in time"});
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
  if (!incidents_.is_open()) return become_forming(now, "a planned regroup");
  if (auto refusal = judge_retry(now)) {
    incidents_.verdict("stop", "the job stops: " + refusal->sentence);
    record("verdict", incidents_.present().host, incidents_.present().rank,
           "stop: " + refusal->sentence);
    return become_over(now, refusal->code, JobState::failed,
                       incidents_.cause().what + "; " + refusal->sentence);
  }
  become_forming(now, incidents_.cause().what);
}

std::optional<Job::Impl::Refusal> Job::Impl::judge_retry(Instant now) {
  const auto& cause = incidents_.cause();
  // What came from outside the job costs nothing and says nothing about the job.
  const bool free = cause.cause == "host_lost" || cause.cause == "link_down" ||
                    cause.cause == "port_conflict" || cause.cause == "storage" ||
                    cause.cause == "preempted" || cause.cause == "operator";
  if (free) return std::nullopt;
  const int own = from_program(cause.code, cause.signal);
  const std::string true_code = cause.signal == 0 && cause.code != own && cause.code != 0
                                    ? " (its own exit code was " + std::to_string(cause.code) + ")"
                                    : "";
  if (budget_.restarts_max() == 0) {
    return Refusal{own, "restarts.process is 0, it is not tried again" + true_code};
  }
  ProgramEnd end{cause.code, cause.signal, cause.last_lines.empty() ? "" : cause.last_lines.back(),
                 running_since_ ? cause.happened_at - *running_since_ : 0ns, ranks_.step()};
  if (user_error_.judge(end)) {
    return Refusal{own,
                   "it ended the same way twice, at the same place and with the same last "
                   "line: an error of the program, not worth another try" +
                       true_code};
  }
  if (cause.cause == "bad_numbers" || cause.cause == "config_error") {
    return Refusal{own, "trying again would give the same"};
  }
  without_progress_ = progressed_ ? 0 : without_progress_ + 1;
  const bool lived = running_since_ && now - *running_since_ >= 10min;
  if (without_progress_ >= policy_.no_progress_generations && (policy_.trainer || !lived)) {
    const bool by_itself = cause.signal == 0 && cause.code != 0;
    if (policy_.trainer || !by_itself) {
      return Refusal{
          to_int(ExitCode::given_up),
          std::to_string(without_progress_) + " generations in a row made no progress: given up"};
    }
  }
  if (!budget_.spend(now)) {
    return Refusal{to_int(ExitCode::given_up),
                   "the budget of " + std::to_string(budget_.restarts_max()) + " restarts within " +
                       format_duration(policy_.restarts_window) + " is spent: given up"};
  }
  return std::nullopt;
}

}  // namespace dlaunch::supervisor::job
