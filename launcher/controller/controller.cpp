#include "launcher/controller/controller.h"

#include <utility>

#include "base/mutant.h"
#include "launcher/controller/controller_impl.h"

namespace dlaunch::launcher::controller {

namespace job = supervisor::job;

namespace {

rendezvous::Coordinator coordinator_of(const Setting& setting, Instant now) {
  const auto& recovered = setting.recovered;
  if (recovered.plan && !recovered.ended) {
    return rendezvous::Coordinator(setting.rendezvous, *recovered.plan, now);
  }
  return rendezvous::Coordinator(setting.rendezvous, recovered.last_generation, now);
}

constexpr const char* kOverSsh = "its control runs over the SSH connection";

Setting begun(Setting setting, Instant now) {
  setting.recovered = supervisor::job::on_this_clock(std::move(setting.recovered), now);
  return setting;
}

}  // namespace

Controller::Impl::Impl(Setting setting, Rng& rng, Instant now)
    : setting_(begun(std::move(setting), now)),
      launch_(setting_.launch, rng),
      coordinator_(coordinator_of(setting_, now)),
      job_(setting_.job, setting_.recovered, now),
      beat_due_(now + setting_.heartbeat) {
  for (const auto& entry : setting_.rendezvous.hosts) hosts_[entry.id].name = entry.name;
  for (const auto host : setting_.recovered.over_ssh) hosts_[host].cannot_dial = true;
  if (const auto& plan = setting_.recovered.plan) {
    for (const auto& member : plan->members) members_.insert(member.host);
    preflight_.settle(members_);
  }
}

std::vector<Command> Controller::Impl::step(Instant now, Event& event) {
  out_.clear();
  if (superseded_) return {};
  std::visit([&](auto& e) { on(now, e); }, event);
  if (!superseded_) drain(now);
  return std::exchange(out_, {});
}

std::optional<Instant> Controller::Impl::next_deadline() const {
  if (ended_ || superseded_) return std::nullopt;
  auto deadline = earlier(launch_.next_deadline(), coordinator_.next_deadline());
  if (!leave_due_) deadline = earlier(deadline, job_.next_deadline());
  deadline = earlier(deadline, leave_due_);
  deadline = earlier(deadline, plant_due_);
  deadline = earlier(deadline, met_until_);
  deadline = earlier(deadline, peers_.next_deadline());
  if (connected_ > 0) deadline = earlier(deadline, beat_due_);
  return deadline;
}

std::vector<Controller::HostView> Controller::Impl::hosts() const {
  std::vector<HostView> views;
  for (const auto& [id, host] : hosts_) {
    const auto seen = coordinator_.view(id);
    const auto& blind = host.facts.blind_sensors();
    views.push_back({id,
                     host.name,
                     seen.state,
                     host.over_ssh && seen.reason.empty() ? kOverSsh : seen.reason,
                     seen.last_heard,
                     host.agent_pid,
                     {blind.begin(), blind.end()},
                     host.facts.scratch(),
                     host.connection != 0,
                     host.heartbeats,
                     host.connection != 0 && host.over_ssh});
  }
  return views;
}

// ---- events from outside

void Controller::Impl::on(Instant now, const Begin&) {
  // Agents of an earlier incarnation find their way back by themselves; the others are planted.
  if (setting_.incarnation.value > 1 && !DL_MUTANT("readmit_ignored")) {
    met_until_ = now + setting_.rendezvous.readmit;
    plant_due_ = setting_.agents_dial ? *met_until_ : now;
    for (const auto host : setting_.recovered.over_ssh) {
      reach_again(host, "the controller was started again");
    }
  } else {
    inner_.push_back(launch::Event{launch::StartAll{}});
  }
  inner_.push_back(job::Event{job::Begin{}});
  for (const auto& blame : setting_.recovered.blames) {
    tell(rendezvous::HostBlamed{blame.host, blame.reason, blame.beyond_doubt, blame.at});
  }
  for (const auto host : setting_.recovered.drained) tell(rendezvous::DrainAsked{host});
}

void Controller::Impl::on(Instant now, const DeadlineDue&) {
  const auto due = [now](std::optional<Instant> deadline) { return deadline && *deadline <= now; };
  if (now >= beat_due_) beat(now);
  if (due(plant_due_)) {
    plant_due_.reset();
    inner_.push_back(launch::Event{launch::StartAll{true}});
  }
  if (due(launch_.next_deadline())) inner_.push_back(launch::Event{launch::DeadlineDue{}});
  if (due(peers_.next_deadline())) send_peers(now);
  if (due(coordinator_.next_deadline())) tell(rendezvous::DeadlineDue{});
  if (due(job_.next_deadline())) inner_.push_back(job::Event{job::DeadlineDue{}});
  if (due(met_until_)) {
    met_until_.reset();
    if (leave_due_ && leaving_.empty()) end();
  }
  if (due(leave_due_)) end();
}

Controller::Controller(Setting setting, Rng& rng, Instant now)
    : impl_(std::make_unique<Impl>(std::move(setting), rng, now)) {}
Controller::~Controller() = default;

std::vector<Command> Controller::step(Instant now, Event event) { return impl_->step(now, event); }
std::optional<Instant> Controller::next_deadline() const { return impl_->next_deadline(); }
std::vector<Controller::HostView> Controller::hosts() const { return impl_->hosts(); }
supervisor::job::View Controller::job() const { return impl_->job(); }
std::string Controller::why_not_drain(HostId host) const { return impl_->why_not_drain(host); }

}  // namespace dlaunch::launcher::controller
