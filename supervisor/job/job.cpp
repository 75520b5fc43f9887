#include "supervisor/job/job.h"

#include <algorithm>

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
      must_be_empty_(policy_.fresh && recovered.last_generation.value == 0),
      best_step_(recovered.best_step),
      started_(now) {
  for (std::uint32_t i = 0; i < recovered.restarts_spent; ++i) (void)budget_.spend(now);
  if (recovered.disk_step) checkpoints_.found({*recovered.disk_step});
  if (recovered.was_stopping) stop_ = StopAsked{false, false, "asked for before the restart"};
  if (recovered.last_generation.value > 0) {
    record("controller_restarted", {}, {},
           "generation " + std::to_string(recovered.last_generation.value) + " was the last");
  }
}

std::vector<Command> Job::Impl::step(Instant now, const Event& event) {
  if (!std::holds_alternative<Over>(state_)) {
    std::visit([&](const auto& e) { on(now, e); }, event);
  }
  // An abort waits for nothing, not even for the record of why it was ordered.
  std::stable_partition(out_.begin(), out_.end(), [](const Command& command) {
    const auto* send = std::get_if<Send>(&command);
    return send != nullptr && send->body.has_abort();
  });
  return std::exchange(out_, {});
}

std::optional<Instant> Job::Impl::next_deadline() const {
  struct Deadline {
    std::optional<Instant> operator()(const Gathering&) const { return std::nullopt; }
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
    std::optional<Instant> operator()(const Aborting& s) const {
      return earlier(s.due, s.judge_due);
    }
    std::optional<Instant> operator()(const Over&) const { return std::nullopt; }
  };
  if (std::holds_alternative<Over>(state_)) return std::nullopt;
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
  view.tokens_per_second = shown_ == JobState::running ? ranks_.tokens_per_second() : 0;
  view.step_seconds = ranks_.step_seconds();
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
    if (!std::holds_alternative<Over>(state_)) continue;
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
    set_state(shown_, std::exchange(reason_before_, ""));
  }
  const auto* journaling = std::get_if<Journaling>(&state_);
  if (journaling != nullptr && journaling->ticket == e.ticket) {
    record("generation_formed", {}, {},
           std::to_string(plan_.members.size()) + " hosts, world size " +
               std::to_string(plan_.world_size));
    return has_checkpoints() ? become_inspecting(now) : become_preparing(now);
  }
  const auto commit = commits_.find(e.ticket);
  if (commit == commits_.end()) return;
  order_commit(now, commit->second);
  commits_.erase(commit);
}

void Job::Impl::on(Instant now, const JournalFailed& e) {
  if (!journal_due_) reason_before_ = reason_;
  journal_due_ = now + kJournalRetry;
  set_state(shown_, "decisions wait until run.db can be written: " + e.sentence);
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

void Job::Impl::retry_journal(Instant now) {
  journal_due_ = now + kJournalRetry;
  for (const auto& [ticket, entry] : unwritten_) out_.push_back(entry);
}

void Job::Impl::record(std::string event, std::optional<HostId> host, std::optional<Rank> rank,
                       std::string detail, std::optional<Step> step) {
  out_.push_back(Record{std::move(event), generation_, host, rank, step, std::move(detail)});
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

bool Job::Impl::is_member(HostId host) const {
  return std::any_of(plan_.members.begin(), plan_.members.end(),
                     [&](const auto& member) { return member.host == host; });
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
