#include "supervisor/host/agent.h"

#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "base/overloaded.h"
#include "base/probe.h"
#include "protocol/limits.h"
#include "supervisor/host/agent_impl.h"

namespace dlaunch::supervisor::host {

Agent::Impl::Impl(Identity identity, Instant now, protocol::EndpointReader reader)
    : identity_(std::move(identity)),
      lease_(identity_.lease),
      stop_on_lease_end_(identity_.stop_on_lease_end),
      lease_due_(now + lease_),
      reader_(std::move(reader)) {
  // What an agent before this one started here is nobody's child any more.
  if (!identity_.first) become_clearing(std::nullopt);
}

std::vector<Command> Agent::Impl::step(Instant now, const Event& event) {
  std::visit([&](const auto& e) { on(now, e); }, event);
  return std::exchange(out_, {});
}

std::optional<Instant> Agent::Impl::next_deadline() const {
  if (std::holds_alternative<Leaving>(state_)) return std::nullopt;
  auto deadline = earlier(beat_due_, kill_due_);
  if (parting_due_) {
    deadline = earlier(deadline, parting_due_);
  } else if (stop_on_lease_end_) {
    deadline = earlier(deadline, lease_due_);
  }
  return deadline;
}

// ---- connection and time

void Agent::Impl::on(Instant, const ConnectionUp& e) {
  connected_ = true;
  welcomed_ = false;
  protocol::AgentFrame frame;
  auto& hello = *frame.mutable_hello();
  hello.set_protocol(protocol::kProtocolVersion);
  hello.set_build(identity_.build);
  hello.set_name(identity_.name);
  hello.set_boot_id(identity_.boot_id);
  hello.set_agent(identity_.agent);
  hello.set_agent_pid(identity_.pid);
  hello.set_relayed_by(e.relayed_by);
  hello.set_over_ssh(e.over_ssh);
  hello.set_generation(generation_.value);
  hello.set_phase(phase());
  hello.set_aborted(aborted_);
  hello.set_stop_told(stop_told_ || stop_signalled_);
  for (const auto& [rank, worker] : workers_) {
    auto* running = hello.add_workers();
    running->set_rank(rank.value);
    running->set_generation(generation_.value);
    running->set_pid(worker.pid);
    running->set_alive(worker.alive);
    running->set_finished(worker.alive ? worker.finished : worker.ended_well);
    if (worker.status.has_step()) running->set_step(worker.status.step());
  }
  send(std::move(frame));
}

protocol::HostPhase Agent::Impl::phase() const {
  return std::visit(Overloaded{[](const Idle&) { return protocol::HOST_IDLE; },
                               [](const Clearing&) { return protocol::HOST_CLEARING; },
                               [](const Starting&) { return protocol::HOST_STARTING; },
                               [](const Ready&) { return protocol::HOST_READY; },
                               [](const Joining&) { return protocol::HOST_JOINING; },
                               [](const Training&) { return protocol::HOST_TRAINING; },
                               [](const Leaving&) { return protocol::HOST_CLEARING; }},
                    state_);
}

void Agent::Impl::on(Instant, const ConnectionDown& e) {
  if (connected_) out_.push_back(Note{"the controller cannot be reached: " + e.reason});
  connected_ = false;
  welcomed_ = false;
  beat_due_.reset();
}

void Agent::Impl::on(Instant now, const DeadlineDue&) {
  if (std::holds_alternative<Leaving>(state_)) return;
  if (parting_due_ ? now >= *parting_due_ : stop_on_lease_end_ && now >= lease_due_) {
    return on_lease_end(now);
  }
  if (kill_due_ && now >= *kill_due_) {
    kill_due_.reset();
    out_.push_back(KillAll{});
  }
  if (beat_due_ && now >= *beat_due_) beat(now);
}

/// The lease is counted on this host's clock; while the agent did not run nothing could be heard.
void Agent::Impl::on(Instant now, const Stalled&) {
  DL_PROBE("the agent did not run for a while");
  if (lease_due_ < now + lease_ / 2) lease_due_ = now + lease_ / 2;
}

void Agent::Impl::on(Instant now, const QuietUntil& e) {
  if (beat_due_) beat_due_ = std::max(now, e.until);
  if (welcomed_) lease_due_ = e.heard + lease_;
}

void Agent::Impl::on(Instant, const LeaveAsked& e) { become_leaving(e.reason); }

void Agent::Impl::beat(Instant now) {
  beat_due_ = now + heartbeat_;
  tell_workers(now);
}

void Agent::Impl::tell_workers(Instant now) {
  protocol::AgentFrame frame;
  auto& beat = *frame.mutable_heartbeat();
  for (const auto& [rank, worker] : workers_) {
    auto* status = beat.add_workers();
    *status = worker.status;
    status->set_since_progress_seconds(to_seconds(now - worker.progressed_at));
  }
  send(std::move(frame));
}

// ---- saying

void Agent::Impl::send(protocol::AgentFrame frame, Generation about) {
  if (!connected_) return;
  frame.set_job(identity_.job);
  frame.set_host(identity_.host.value);
  frame.set_group(protocol::kGroupMain);
  frame.set_generation(about.value);
  frame.set_incarnation(incarnation_);
  out_.push_back(Send{std::move(frame)});
}

void Agent::Impl::testify(Instant now, Generation about, protocol::Evidence evidence) {
  const auto& entry = evidence_.add(now, about, std::move(evidence));
  protocol::AgentFrame frame;
  *frame.mutable_evidence() = dated(entry, now);
  if (welcomed_) send(std::move(frame), about);
  if (DL_MUTANT("evidence_not_kept")) evidence_.acknowledged(entry.evidence.number());
}

void Agent::Impl::send_gone() {
  protocol::AgentFrame frame;
  frame.mutable_workers_gone();
  send(std::move(frame));
}

// ---- findings of the shell

void Agent::Impl::on(Instant, const SelfChecked& e) {
  self_ = e.ready;
  data_interface_ = e.data_interface;
  protocol::AgentFrame frame;
  *frame.mutable_ready() = e.ready;
  send(std::move(frame));
}

void Agent::Impl::on(Instant now, const LinkSeen& e) {
  const auto [known, first] = links_.try_emplace(e.interface, Link{e.up, now});
  if (first ? e.up : known->second.up == e.up) return;
  known->second = {e.up, now};
  protocol::Evidence evidence;
  auto& link = *evidence.mutable_link_changed();
  link.set_interface(e.interface);
  link.set_up(e.up);
  link.set_down_seconds(e.down_seconds);
  testify(now, generation_, std::move(evidence));
}

/// A controller that was started again cannot know: all that are down, before `Ready` is said.
void Agent::Impl::repeat_links(Instant now) {
  for (const auto& [interface, link] : links_) {
    const bool waits = std::any_of(
        evidence_.waiting().begin(), evidence_.waiting().end(),
        [&](const auto& entry) { return entry.evidence.link_changed().interface() == interface; });
    if (link.up || waits) continue;
    protocol::Evidence evidence;
    evidence.mutable_link_changed()->set_interface(interface);
    evidence.mutable_link_changed()->set_down_seconds(to_seconds(now - link.since));
    evidence_.add(link.since, generation_, std::move(evidence));
  }
}

void Agent::Impl::on(Instant, const PathsSeen& e) {
  protocol::AgentFrame frame;
  *frame.mutable_path_report() = e.report;
  if (welcomed_) send(std::move(frame));
}

void Agent::Impl::on(Instant, const CommitDone& e) {
  protocol::AgentFrame frame;
  auto& committed = *frame.mutable_committed();
  committed.set_step(e.step);
  committed.set_error(e.error);
  if (e.generation == generation_) keep_newest(committed_, committed);
  send(std::move(frame), e.generation);
  if (e.error.empty() && e.generation == generation_)
    tell_all(protocol::worker::Committed{Step{e.step}});
}

void Agent::Impl::on(Instant, const Inspected& e) {
  protocol::AgentFrame frame;
  *frame.mutable_checkpoints_found() = e.found;
  send(std::move(frame));
}

void Agent::Impl::on(Instant, const MarkLooked& e) {
  protocol::AgentFrame frame;
  frame.mutable_mark_looked()->set_error(e.error);
  send(std::move(frame), e.generation);
}

void Agent::Impl::on(Instant, const OutputLines& e) {
  protocol::AgentFrame frame;
  auto& lines = *frame.mutable_log_lines();
  lines.set_rank(e.rank.value);
  lines.set_error_stream(e.error_stream);
  lines.set_text(e.text);
  lines.set_dropped(e.dropped);
  if (welcomed_) send(std::move(frame), e.generation);
}

// ---- the end

/// Nobody is heard any more, and nobody can be asked: what runs here is ended, with a checkpoint
/// where there can be one. From here on there is no way back.
void Agent::Impl::on_lease_end(Instant now) {
  note_written();
  const bool runs = std::any_of(workers_.begin(), workers_.end(),
                                [](const auto& entry) { return entry.second.alive; });
  if (parting_due_ || !runs || !std::holds_alternative<Training>(state_)) {
    return become_leaving("the lease is over: nothing was heard of the controller for too long");
  }
  parting_due_ = now + std::chrono::milliseconds(job_.stop_grace_ms());
  if (job_.trainer()) {
    stop_told_ = true;
    return tell_all(protocol::worker::Stop{true});
  }
  stop_signalled_ = true;
  out_.push_back(AskWorkersToEnd{});
}

void Agent::Impl::become_leaving(const std::string& reason) {
  if (std::holds_alternative<Leaving>(state_)) return;
  out_.push_back(Note{"leaving: " + reason});
  state_ = Leaving{reason};
  beat_due_.reset();
  kill_due_.reset();
  parting_due_.reset();
  out_.push_back(KillAll{});
}

void Agent::Impl::leave_now() {
  protocol::AgentFrame frame;
  frame.mutable_left();
  send(std::move(frame));
  out_.push_back(Exit{std::get<Leaving>(state_).reason});
}

Agent::Agent(Identity identity, Instant now, protocol::EndpointReader reader)
    : impl_(std::make_unique<Impl>(std::move(identity), now, std::move(reader))) {}
Agent::~Agent() = default;
Agent::Agent(Agent&&) noexcept = default;
Agent& Agent::operator=(Agent&&) noexcept = default;
std::vector<Command> Agent::step(Instant now, const Event& event) {
  return impl_->step(now, event);
}
std::optional<Instant> Agent::next_deadline() const { return impl_->next_deadline(); }

}  // namespace dlaunch::supervisor::host
