#include "supervisor/job/job.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

std::string rank_state(const RankStatus& rank) {
  if (rank.finished) return "exited";
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
      return "exited";
    default:
      return "absent";
  }
}

RankView view_of(const RankStatus& rank) {
  RankView view;
  view.rank = Rank{rank.status.rank()};
  view.host = rank.host;
  view.pid = rank.status.pid();
  view.state = rank_state(rank);
  if (rank.status.has_step()) view.step = Step{rank.status.step()};
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
  return std::exchange(out_, {});
}

std::optional<Instant> Job::Impl::next_deadline() const {
  struct Deadline {
    std::optional<Instant> operator()(const Gathering&) const { return std::nullopt; }
    std::optional<Instant> operator()(const Inspecting& s) const { return s.due; }
    std::optional<Instant> operator()(const MakingSure& s) const { return s.due; }
    std::optional<Instant> operator()(const Forming& s) const { return s.give_up_at; }
    std::optional<Instant> operator()(const Journaling&) const { return std::nullopt; }
    std::optional<Instant> operator()(const Preparing& s) const { return s.due; }
    std::optional<Instant> operator()(const Joining& s) const { return s.due; }
    std::optional<Instant> operator()(const Running& s) const {
      return earlier(earlier(s.stop_due, s.end_due), earlier(s.checkpoint_due, s.look_due));
    }
    std::optional<Instant> operator()(const Aborting& s) const {
      return earlier(s.due, s.judge_due);
    }
    std::optional<Instant> operator()(const Over&) const { return std::nullopt; }
  };
  return std::visit(Deadline{}, state_);
}

View Job::Impl::view() const {
  View view;
  view.state = shown_;
  view.reason = reason_;
  view.generation = generation_;
  view.world_size = plan_.world_size;
  view.step = ranks_.step() ? ranks_.step() : restore_step_;
  view.loss = ranks_.loss();
  view.tokens_per_second = shown_ == JobState::running ? ranks_.tokens_per_second() : 0;
  view.step_seconds = ranks_.step_seconds();
  view.disk_step = checkpoints_.newest();
  if (const auto* steps = std::get_if<EverySteps>(&policy_.every)) {
    view.checkpoint_every = std::to_string(steps->steps) + " steps";
  } else if (const auto* time = std::get_if<EveryTime>(&policy_.every)) {
    view.checkpoint_every = format_duration(time->interval);
  } else if (has_checkpoints()) {
    view.checkpoint_every = "auto";
  }
  for (const auto& [rank, status] : ranks_.all()) view.ranks.push_back(view_of(status));
  view.incidents = incidents_.all();
  return view;
}

// ---- saying

void Job::Impl::send(std::vector<HostId> hosts, protocol::ControllerFrame body) {
  if (!hosts.empty()) out_.push_back(Send{std::move(hosts), generation_, std::move(body)});
}

std::uint64_t Job::Impl::journal(const std::string& kind, std::string json) {
  out_.push_back(Journal{++tickets_, kind, std::move(json)});
  return tickets_;
}

void Job::Impl::record(std::string event, std::optional<HostId> host, std::optional<Rank> rank,
                       std::string detail, std::optional<Step> step) {
  out_.push_back(Record{std::move(event), generation_, host, rank, step, std::move(detail)});
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
