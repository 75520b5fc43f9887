#include "supervisor/job/job.h"

#include <algorithm>

#include "base/probe.h"
#include "base/units.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr nanoseconds kJournalRetry = 5s;  // a full disk is emptied by a person

constexpr const char* kAbsent = "absent";
constexpr const char* kExited = "exited";

std::string rank_state(const RankStatus& rank) {
  if (rank.finished) return kExited;
  switch (rank.status.state()) {
    case protocol::WORKER_STARTING:
      return "starting";
    case protocol::WORKER_READY:
      return "ready";
    case protocol::WORKER_CONNECTING:
      return "connecting";
    case protocol::WORKER_RESTORED:
      return "restored";
    case protocol::WORKER_RUNNING:
      return "running";
    case protocol::WORKER_PARKED:
      return "parked";
    case protocol::WORKER_EXITED:
      return kExited;
    default:
      return kAbsent;
  }
}

RankView view_of(const RankStatus& rank) {
  RankView view;
  view.rank = Rank{rank.status.rank()};
  view.host = rank.host;
  view.state = rank_state(rank);
  if (rank.status.has_step()) view.step = Step{rank.status.step()};
  if (view.state == kAbsent || view.state == kExited) return view;
  view.pid = rank.status.pid();
  view.phase = rank.status.phase();
  view.waiting_seconds = rank.status.waiting_seconds();
  view.memory_bytes = rank.status.figures().memory_bytes();
  view.memory_peak_bytes = rank.status.figures().memory_peak_bytes();
  return view;
}

}  // namespace

const char* to_string(JobState state) {
  switch (state) {
    case JobState::starting:
      return "starting";
    case JobState::running:
      return "running";
    case JobState::recovering:
      return "recovering";
    case JobState::waiting:
      return "waiting";
    case JobState::stopping:
      return "stopping";
    case JobState::finished:
      return "finished";
    case JobState::stopped:
      return "stopped";
    case JobState::failed:
      return "failed";
  }
  return "unknown";
}

Job::Impl::Impl(Policy policy, Recovered recovered, Instant now)
    : policy_(std::move(policy)),
      generation_(recovered.last_generation),
      checkpoints_(policy_.keep),
      incidents_(recovered.incidents),
      budget_(policy_.process_restarts_max, policy_.restarts_window),
      links_(policy_.link_window),
      first_fingerprints_(recovered.counted.fingerprints),
      must_be_empty_(policy_.fresh && !recovered.inspected),
      logical_batches_(recovered.logical_batches),
      best_step_(recovered.best_step),
      without_progress_(recovered.counted.without_progress),
      free_retries_(recovered.counted.free_retries),
      wait_until_(recovered.wait_until),
      unsure_before_(recovered.unsure),
      started_(recovered.counted.began.value_or(now)),
      incidents_before_(recovered.counted.began ? recovered.counted.incidents_before
                                                : recovered.incidents) {
  budget_.restore(recovered.counted.restarts);
  user_error_.restore(recovered.counted.last_end);
  crashes_.restore(recovered.counted.crashes);
  checkpoints_.restore_cost(recovered.save_cost);
  for (const auto& blame : recovered.blames) {
    if (blame.generation == generation_) blamed_.insert({blame.host, blame.beyond_doubt});
  }
  for (const auto step : recovered.damaged_steps) (void)checkpoints_.damaged(step);
  checkpoints_.found(recovered.disk_steps);
  if (const auto& stopping = recovered.stopping) {
    stop_ = StopAsked{false, stopping->preempted, stopping->reason};
  }
  recovered_ = std::move(recovered);
}

std::vector<Command> Job::Impl::step(Instant now, const Event& event) {
  const bool is_ending = std::holds_alternative<Ending>(state_);
  const bool matters = std::holds_alternative<Journaled>(event) ||
                       std::holds_alternative<JournalFailed>(event) ||
                       std::holds_alternative<DeadlineDue>(event);
  if (!std::holds_alternative<Over>(state_) && (!is_ending || matters)) {
    std::visit([&](const auto& e) { on(now, e); }, event);
  }
  // An abort waits for nothing, not even for the record of why it was ordered.
  const auto is_abort = [](const Command& command) {
    const auto* send = std::get_if<Send>(&command);
    return send != nullptr && send->body.has_abort();
  };
  if (std::any_of(out_.begin(), out_.end(), is_abort)) {
    std::stable_partition(out_.begin(), out_.end(), is_abort);
  }
  return std::exchange(out_, {});
}

std::optional<Instant> Job::Impl::next_deadline() const {
  struct Deadline {
    std::optional<Instant> operator()(const Gathering&) const { return std::nullopt; }
    std::optional<Instant> operator()(const Adopting&) const { return std::nullopt; }
    std::optional<Instant> operator()(const Inspecting& s) const { return s.due; }
    std::optional<Instant> operator()(const Pausing& s) const { return s.due; }
    std::optional<Instant> operator()(const MakingSure& s) const { return s.due; }
    std::optional<Instant> operator()(const Forming& s) const { return s.give_up_at; }
    std::optional<Instant> operator()(const Journaling&) const { return std::nullopt; }
    std::optional<Instant> operator()(const Preparing& s) const { return s.due; }
    std::optional<Instant> operator()(const Joining& s) const { return s.due; }
    std::optional<Instant> operator()(const Running& s) const {
      return earlier(earlier(earlier(s.stop_due, s.end_due), s.commit_due),
                     earlier(s.checkpoint_due, s.look_due));
    }
    std::optional<Instant> operator()(const Parting& s) const { return s.due; }
    std::optional<Instant> operator()(const Aborting& s) const {
      return earlier(s.due, s.judge_due);
    }
    std::optional<Instant> operator()(const Ending& s) const { return s.due; }
    std::optional<Instant> operator()(const Over&) const { return std::nullopt; }
  };
  if (is_over()) return std::visit(Deadline{}, state_);
  return earlier(earlier(std::visit(Deadline{}, state_), journal_due_), links_.next_deadline());
}

View Job::Impl::view() const {
  View view;
  view.state = shown_;
  view.reason = reason_;
  view.generation = generation_;
  view.world_size = plan_.world_size;
  // While it runs again what was done before the fault; else the highest ever reached.
  view.step = best_step_;
  if (std::holds_alternative<Running>(state_)) view.step = std::max(ranks_.step(), restore_step_);
  if (view.step == Step{0}) view.step.reset();
  view.loss = ranks_.loss();
  view.loss_step = ranks_.loss_step();
  view.tokens_per_second = shown_ == JobState::running ? ranks_.tokens_per_second() : 0;
  view.step_seconds = ranks_.step_seconds();
  view.figures = figures_of(ranks_);
  view.disk_step = checkpoints_.newest();
  if (const auto* steps = std::get_if<EverySteps>(&policy_.every)) {
    view.checkpoint_every = std::to_string(steps->steps) + " steps";
  } else if (const auto* time = std::get_if<EveryTime>(&policy_.every)) {
    view.checkpoint_every = format_duration(time->interval);
  } else if (has_checkpoints()) {
    view.checkpoint_every =
        "auto (" + format_duration(std::chrono::round<seconds>(interval_)) + ")";
  }
  for (const auto& [rank, status] : ranks_.all()) {
    view.ranks.push_back(view_of(status));
    if (!is_over()) continue;
    view.ranks.back().state = kAbsent;  // every agent ends what is left
    view.ranks.back().pid = 0;
    view.ranks.back().phase.clear();
  }
  view.incidents = incidents_.all();
  return view;
}

// ---- run.db

void Job::Impl::on(Instant now, const Journaled& e) {
  unwritten_.erase(e.ticket);
  if (unwritten_.empty() && journal_due_) {
    journal_due_.reset();
    DL_PROBE("run.db can be written again");
    set_state(shown_, std::exchange(reason_before_, ""));
  }
  pay(e.ticket);
  if (const auto* ending = std::get_if<Ending>(&state_)) {
    if (ending->ticket == e.ticket) become_over();
    return;
  }
  const auto* journaling = std::get_if<Journaling>(&state_);
  if (journaling != nullptr && journaling->ticket == e.ticket) {
    record("generation_formed", {}, {},
           std::to_string(plan_.members.size()) + " hosts, world size " +
               std::to_string(plan_.world_size));
    return has_checkpoints() ? become_inspecting(now) : become_preparing(now);
  }
  if (auto* preparing = std::get_if<Preparing>(&state_);
      preparing && e.ticket == preparing->ticket) {
    preparing->ticket = 0;
    return become_joining_when_prepared(now);
  }
  if (e.ticket == stop_ticket_) return order_stop(now);
  if (e.ticket == regroup_ticket_ && std::holds_alternative<Running>(state_)) {
    auto reason = std::exchange(regroup_order_, "");
    return policy_.trainer ? become_aborting(now, reason) : become_parting(now, std::move(reason));
  }
  const auto commit = commits_.find(e.ticket);
  if (commit == commits_.end()) return;
  order_commit(now, commit->second);
  commits_.erase(commit);
}

/// What is safe without the disk goes on: that the job stops or is over can be seen at its agents.
void Job::Impl::on(Instant now, const JournalFailed& e) {
  if (std::holds_alternative<Ending>(state_)) return become_over();
  if (!journal_due_) reason_before_ = reason_;
  DL_PROBE("run.db cannot be written");
  journal_due_ = now + kJournalRetry;
  set_state(shown_, "decisions wait until run.db can be written: " + e.sentence);
  if (unwritten_.contains(stop_ticket_)) order_stop(now);
}

// ---- saying

void Job::Impl::send(std::vector<HostId> hosts, protocol::ControllerFrame body) {
  if (!hosts.empty()) out_.push_back(Send{std::move(hosts), generation_, std::move(body)});
}

std::uint64_t Job::Impl::journal(const std::string& kind, std::string json) {
  Journal entry{++tickets_, kind, std::move(json)};
  unwritten_[entry.ticket] = entry;
  out_.push_back(std::move(entry));
  return tickets_;
}

void Job::Impl::journal_incident() {
  const auto ticket = incidents_.is_open()
                          ? journal("incident", incident_row(incidents_.saved()))
                          : journal("incident", closed_incident_row(incidents_.present().id));
  for (auto& [host, owed] : owed_) {
    if (owed.ticket == kNextRow) owed.ticket = ticket;
  }
}

/// Evidence that changes nothing by itself is acknowledged at once, but never before what came
/// earlier from the same host.
void Job::Impl::acknowledge(HostId host, std::uint64_t number) {
  if (const auto owed = owed_.find(host); owed != owed_.end()) {
    owed->second.number = std::max(owed->second.number, number);
    return;
  }
  protocol::ControllerFrame frame;
  frame.mutable_evidence_acknowledged()->set_number(number);
  send({host}, std::move(frame));
}

void Job::Impl::owe(HostId host, std::uint64_t number, std::uint64_t ticket) {
  auto& owed = owed_[host];
  owed.ticket = ticket;
  owed.number = std::max(owed.number, number);
}

void Job::Impl::pay(std::uint64_t ticket) {
  std::vector<std::pair<HostId, std::uint64_t>> due;
  for (const auto& [host, owed] : owed_) {
    if (owed.ticket <= ticket) due.emplace_back(host, owed.number);
  }
  for (const auto& [host, number] : due) {
    owed_.erase(host);
    acknowledge(host, number);
  }
}

void Job::Impl::retry_journal(Instant now) {
  journal_due_ = now + kJournalRetry;
  for (const auto& [ticket, entry] : unwritten_) out_.push_back(entry);
}

void Job::Impl::record(std::string event, std::optional<HostId> host, std::optional<Rank> rank,
                       std::string detail, std::optional<Step> step) {
  out_.push_back(Record{std::move(event), generation_, host, rank, step, std::move(detail)});
}

Counted Job::Impl::counted() const {
  return {started_,      incidents_before_,  budget_.spends(),   without_progress_,
          free_retries_, user_error_.last(), crashes_.crashes(), first_fingerprints_};
}

JobState Job::Impl::state_underway() const {
  if (stop_) return JobState::stopping;
  const bool began = running_since_ || incidents_.count() > 0;
  return began ? JobState::recovering : JobState::starting;
}

void Job::Impl::set_state(JobState state, std::string reason) {
  if (shown_ == state && reason_ == reason) return;
  shown_ = state;
  reason_ = std::move(reason);
  out_.push_back(StateBecame{shown_, reason_});
}

std::vector<HostId> Job::Impl::members() const {
  std::vector<HostId> hosts;
  for (const auto& member : plan_.members) hosts.push_back(member.host);
  return hosts;
}

std::string Job::Impl::name(HostId host) const {
  const auto found = policy_.host_names.find(host);
  return found == policy_.host_names.end() ? "host " + std::to_string(host.value) : found->second;
}

Job::Job(Policy policy, Recovered recovered, Instant now)
    : impl_(std::make_unique<Impl>(std::move(policy), std::move(recovered), now)) {}
Job::~Job() = default;
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
std::vector<Command> Job::step(Instant now, const Event& event) { return impl_->step(now, event); }
std::optional<Instant> Job::next_deadline() const { return impl_->next_deadline(); }
View Job::view() const { return impl_->view(); }

}  // namespace dlaunch::supervisor::job
