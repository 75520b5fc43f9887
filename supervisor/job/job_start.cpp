// From the quorum to Go: forming, preparing and joining a generation.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "base/probe.h"
#include "base/units.h"
#include "protocol/limits.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {

// ---- the coordinator

void Job::Impl::on(Instant now, const FromCoordinator& e) {
  std::visit([&](const auto& command) { on_coordinator(now, command); }, e.command);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::QuorumReached& e) {
  if (!std::holds_alternative<Gathering>(state_)) return;
  if (stop_)
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         "stopped before it began: " + stop_->reason);
  become_forming(now, e.sentence);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::QuorumImpossible& e) {
  const auto code = e.by_files     ? ExitCode::wrong_file
                    : e.all_by_key ? ExitCode::ssh_key
                                   : ExitCode::hosts_missing;
  become_ending(now, to_int(code), JobState::failed, "cannot start: " + e.sentence);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::Formed& e) {
  if (std::holds_alternative<Forming>(state_)) become_journaling(now, e);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::CannotForm& e) {
  auto* forming = std::get_if<Forming>(&state_);
  if (forming == nullptr) return;
  if (stop_)
    return become_ending(now, to_int(ExitCode::stopped), JobState::stopped,
                         "stopped while it waited for hosts: " + stop_->reason);
  forming->missing = e.sentence;
  DL_PROBE("the job waits for hosts");
  if (!forming->give_up_at) forming->give_up_at = wait_until(now);
  if (incidents_.is_open()) {
    incidents_.verdict("wait", "waiting for a host");
    incident_changed();
    record("verdict", {}, {}, "wait: " + e.sentence);
  }
  set_state(JobState::waiting, "waiting up to " + format_duration(policy_.wait_for_host) +
                                   " for hosts: " + e.sentence);
}

/// A controller that was started again goes on with the wait, and gives hosts the time to find it.
Instant Job::Impl::wait_until(Instant now) {
  const auto before = std::exchange(wait_until_, std::nullopt);
  if (before) return std::max(*before, now + policy_.readmit);
  const auto until = now + policy_.wait_for_host;
  (void)journal("waiting", until_row({}, until));
  return until;
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::HostReturned& e) {
  record("host_back", e.host, {}, e.joins ? "it joins at the next step boundary" : "it is a spare");
  on_stop_confirmed(now, e.host);
  // A program would have to be restarted for it, so there the host waits for the next restart,
  // unless a person wants it now.
  if (e.joins && (has_checkpoints() || e.asked)) {
    on(now, RegroupAsked{name(e.host) + (e.asked ? " is let in on request" : " joins")});
  }
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::MemberDrained& e) {
  on(now, RegroupAsked{name(e.host) + " is taken out on request"});
}

void Job::Impl::on_stop_confirmed(Instant now, HostId host) {
  unsure_.erase(host);
  if (unsure_.empty() && std::holds_alternative<MakingSure>(state_)) {
    become_forming(now, "the program has surely ended on " + name(host));
  }
}

// ---- forming

void Job::Impl::become_pausing(Instant due) {
  state_ = Pausing{due};
  set_state(state_underway(), reason_ + "; waiting before the next try");
}

void Job::Impl::become_forming(Instant now, std::string reason) {
  std::erase_if(unsure_, [&](const auto& entry) { return entry.second <= now; });
  if (!policy_.trainer && !unsure_.empty() && !DL_MUTANT("program_lease_ignored")) {
    Instant due = unsure_.begin()->second;
    std::string hosts;
    for (const auto& [host, until] : unsure_) {
      due = std::min(due, until);
      hosts += (hosts.empty() ? "" : ", ") + name(host);
    }
    set_state(JobState::waiting, "the program may still run on " + hosts +
                                     ", which cannot be reached; it is started again once its "
                                     "lease there is over");
    state_ = MakingSure{due};
    DL_PROBE("a program may still run elsewhere");
    return;
  }
  state_ = Forming{};
  regroup_reason_.clear();  // whoever wanted to be let in or out is dealt with now
  excluded_ = std::exchange(unusable_, {});
  out_.push_back(Form{excluded_, std::move(reason)});
}

void Job::Impl::become_journaling(Instant now, const rendezvous::Formed& formed) {
  const auto before = plan_;
  plan_ = formed.plan;
  generation_ = plan_.generation;
  std::string underway = "generation " + std::to_string(generation_.value) + " on " +
                         std::to_string(plan_.members.size()) +
                         (plan_.members.size() == 1 ? " host" : " hosts");
  if (incidents_.is_open()) {
    const auto found = judge_regrouping(before, plan_, names());
    incidents_.replaced(now);
    incidents_.verdict(found.verdict, found.what);
    journal_incident();
    incident_changed();
    const auto& incident = incidents_.present();
    record("verdict", incident.host, incident.rank, found.verdict + ": " + found.what);
    underway = incident.sentence;
  }
  set_state(state_underway(), std::move(underway));
  ranks_.begin_generation(plan_, now);
  checkpoints_.begin_generation(plan_.world_size);
  advanced_ = progressed_ = false;
  blamed_.clear();
  wait_until_.reset();
  unsure_before_.clear();
  began_at_.reset();
  last_commit_error_.clear();
  note_exactness();
  const auto ticket = journal("generation", generation_row(plan_, counted(), best_step_, names()));
  state_ = Journaling{ticket};
  if (DL_MUTANT("journal_not_awaited")) on(now, Journaled{ticket});
}

/// Hosts that compute with something else than those of the first generation may round otherwise.
void Job::Impl::note_exactness() {
  std::set<std::string> present;
  std::string differing;
  for (const auto host : members()) {
    const auto found = fingerprints_.find(host);
    if (found == fingerprints_.end()) continue;
    present.insert(found->second);
    const bool known = !first_fingerprints_ || first_fingerprints_->contains(found->second);
    if (!known) differing += (differing.empty() ? "" : ", ") + name(host);
  }
  if (!first_fingerprints_) first_fingerprints_ = present;
  if (differing.empty()) return;
  not_exact({}, {},
            differing +
                " computes with another processor or library than the hosts that the job began "
                "on: the result may differ in the last bits");
}

void Job::Impl::not_exact(std::optional<HostId> host, std::optional<Rank> rank,
                          const std::string& sentence) {
  incidents_.not_exact();
  if (std::exchange(not_exact_, generation_) != generation_) {
    record("not_exact", host, rank, sentence);
  }
}

void Job::Impl::on(Instant, const DataKnown& e) { data_ = e.json; }

/// The agent has named the interfaces that are down there before.
void Job::Impl::on(Instant now, const FingerprintKnown& e) {
  fingerprints_[e.host] = e.fingerprint;
  for (const auto& link : links_.take_unnamed(e.host)) link_up(now, e.host, link);
}

// ---- preparing and joining

void Job::Impl::become_preparing(Instant now) {
  if (!has_checkpoints()) restore_step_.reset();  // a program knows by itself where it was
  Preparing preparing;
  preparing.due = now + policy_.start_limit;
  if (policy_.trainer) {
    // Once chosen it stays, whatever ranks come and go: the result must not depend on them.
    if (policy_.logical_batches_min > 0 && !logical_batches_) {
      logical_batches_ =
          std::max(policy_.logical_batches_min, default_logical_batches(plan_.world_size));
    }
    // Beside the workers' start; only Assign waits for it.
    preparing.ticket =
        journal("restoring", restoring_row(generation_, {restore_step_, logical_batches_},
                                           checkpoints_.steps(), checkpoints_.damaged_steps()));
  }
  state_ = std::move(preparing);
  std::uint32_t index = 0;
  for (const auto& member : plan_.members) {
    protocol::ControllerFrame frame;
    auto& prepare = *frame.mutable_prepare();
    prepare.set_world_size(plan_.world_size);
    prepare.set_first_rank(member.first_rank.value);
    prepare.set_workers(member.workers);
    prepare.set_host_index(index++);
    prepare.set_hosts(static_cast<std::uint32_t>(plan_.members.size()));
    send({member.host}, std::move(frame));
  }
}

void Job::Impl::on_prepared(Instant now, HostId host, const protocol::Prepared& prepared) {
  if (auto* joining = std::get_if<Joining>(&state_)) {
    // It has lost the list that the changes which it was told belong to.
    if (prepared.held() == joining->base.value || joining->told_changes.erase(host) == 0) return;
    return send({host}, assignment(protocol::pack_endpoints(assigned_.ranks)));
  }
  auto* preparing = std::get_if<Preparing>(&state_);
  if (preparing == nullptr) return;
  preparing->prepared[host] = prepared;
  become_joining_when_prepared(now);
}

void Job::Impl::become_joining_when_prepared(Instant now) {
  const auto& preparing = std::get<Preparing>(state_);
  const auto wanted = plan_.members.size() - (DL_MUTANT("assigned_too_early") ? 1 : 0);
  const bool all = preparing.prepared.size() >= wanted;
  if (all && preparing.ticket == 0) become_joining(now, Preparing(preparing));
}

void Job::Impl::become_joining(Instant now, const Preparing& prepared) {
  Joining joining{now + policy_.start_limit, {}, {}, assigned_.generation, {}};
  protocol::EndpointList list{generation_, endpoints_in(prepared.prepared)};
  if (!policy_.trainer && !list.ranks.empty()) master_port_ = list.ranks.front().port;
  const auto whole = protocol::pack_endpoints(list.ranks);
  auto changes = protocol::pack_endpoints(list.ranks, assigned_);
  const bool worth_it =
      assigned_.generation.value > 0 && changes.ByteSizeLong() < whole.ByteSizeLong();
  std::vector<HostId> told_whole;
  for (const auto& [host, answer] : prepared.prepared) {
    const bool holds = answer.held() == assigned_.generation.value;
    if (worth_it && holds) {
      joining.told_changes.insert(host);
    } else {
      told_whole.push_back(host);
    }
  }
  const auto& told = joining.told_changes;
  send({told.begin(), told.end()}, assignment(std::move(changes)));
  send(std::move(told_whole), assignment(whole));
  assigned_ = std::move(list);
  state_ = std::move(joining);
}

protocol::ControllerFrame Job::Impl::assignment(protocol::Endpoints endpoints) const {
  protocol::ControllerFrame frame;
  auto& assign = *frame.mutable_assign();
  *assign.mutable_endpoints() = std::move(endpoints);
  if (restore_step_) assign.set_restore_step(restore_step_->value);
  if (logical_batches_ && policy_.logical_batches_min > 0) {
    assign.set_logical_batches(*logical_batches_);
  }
  return frame;
}

/// By rank. A host speaks for its own ranks only; one of which it says nothing listens nowhere. Of
/// a program only the first is known.
std::vector<protocol::Listening> Job::Impl::endpoints_in(
    const std::map<HostId, protocol::Prepared>& answers) const {
  std::vector<protocol::Listening> ranks(policy_.trainer ? plan_.world_size : 0);
  for (const auto& [host, answer] : answers) {
    for (const auto& said : answer.endpoints()) {
      const Rank rank{said.rank()};
      const auto known = ranks_.all().find(rank);
      if (known == ranks_.all().end() || known->second.host != host) continue;
      if (rank.value >= ranks.size()) ranks.resize(rank.value + 1);
      ranks[rank.value] = {said.address().substr(0, protocol::kAddressBytesMax),
                           static_cast<std::uint16_t>(said.port())};
    }
  }
  return ranks;
}

/// The hosts that have not answered in time are the reason, whatever holds them up.
void Job::Impl::on_start_overdue(Instant now, const std::set<HostId>& answered,
                                 const std::string& what) {
  Happening happening;
  happening.weight = Weight::exception;
  happening.cause = "worker_hung";
  happening.happened_at = now - policy_.start_limit;
  std::string missing;
  for (const auto host : members()) {
    if (answered.contains(host)) continue;
    if (!happening.host) happening.host = host;
    missing += (missing.empty() ? "" : ", ") + name(host);
  }
  happening.what = "the workers on " + missing + " " + what + " within " +
                   format_duration(policy_.start_limit) + ", the start_limit";
  happened(now, std::move(happening));
}

void Job::Impl::on_connected(Instant now, HostId host) {
  auto* joining = std::get_if<Joining>(&state_);
  if (joining == nullptr || !joining->connected.insert(host).second) return;
  if (joining->connected.size() == plan_.members.size()) incidents_.regrouped(now);
}

void Job::Impl::on_restored(Instant now, HostId host, const protocol::Restored& restored) {
  auto* joining = std::get_if<Joining>(&state_);
  if (joining == nullptr) return;
  joining->connected.insert(host);
  joining->restored.insert(host);
  if (joining->restored.size() < plan_.members.size()) return;
  const auto step = Step{restored.step()};
  record("restored", {}, {}, "", step);
  const auto best = best_step_.value_or(Step{}).value;
  restore_step_ = step;
  // Where a program goes on is known to itself alone.
  incidents_.restored(now, policy_.trainer && best > step.value ? best - step.value : 0);
  if (incidents_.is_open()) {
    journal_incident();
    incident_changed();
  }
  become_running(now);
  end_when_done(now);  // a short program may be over before the last host has said that it began
}

}  // namespace dlaunch::supervisor::job
