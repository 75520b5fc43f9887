// The controller's orders. Each is carried out once, however often it comes.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/mutant.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "supervisor/host/agent_impl.h"

namespace dlaunch::supervisor::host {
namespace {

std::string hex(const std::string& bytes) {
  constexpr std::array kDigits = {'0', '1', '2', '3', '4', '5', '6', '7',
                                  '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text.push_back(kDigits.at(byte >> 4U));
    text.push_back(kDigits.at(byte & 15U));
  }
  return text;
}

/// The settings of the job, with what was decided at its start.
std::string settings_with(const std::string& settings, const protocol::Assign& order) {
  if (!order.has_logical_batches()) return settings;
  auto whole = protocol::read_json(settings);
  if (!whole.is_object()) return settings;
  whole["logical_batches"] = order.logical_batches();
  return protocol::json_text(whole);
}

}  // namespace

const protocol::AgentMessage& add_endpoints(TellWorker& order) {
  auto* const assign = std::get_if<protocol::worker::Assign>(&order.message.body);
  if (assign == nullptr || !order.endpoints) return order.message;
  for (const auto& [address, port] : order.endpoints->ranks) {
    const Rank rank{static_cast<std::uint32_t>(assign->endpoints.size())};
    assign->endpoints.push_back({rank, address, port});
  }
  return order.message;
}

/// Of this job and of the highest incarnation: then it renews the lease.
bool Agent::Impl::is_obeyed(Instant now, const protocol::ControllerFrame& frame) {
  if (frame.job() != identity_.job || std::holds_alternative<Leaving>(state_)) return false;
  if (frame.incarnation() < incarnation_ && !DL_MUTANT("old_incarnation_obeyed")) {
    if (frame.has_welcome()) {
      out_.push_back(Reconnect{"a controller of an older incarnation said welcome"});
    }
    return false;
  }
  incarnation_ = frame.incarnation();
  if (!DL_MUTANT("lease_not_renewed")) lease_due_ = std::max(lease_due_, now + lease_);
  return !parting_due_ || frame.has_leave();
}

void Agent::Impl::on(Instant now, const FromController& e) {
  const auto& frame = *e.frame;
  if (!is_obeyed(now, frame)) return;
  switch (frame.body_case()) {
    case protocol::ControllerFrame::kWelcome:
      return obey(now, frame.welcome());
    case protocol::ControllerFrame::kEvidenceAcknowledged:
      return evidence_.acknowledged(frame.evidence_acknowledged().number());
    case protocol::ControllerFrame::kPeers:
      return out_.push_back(KnowPeers{frame.peers(), lost_after_});
    case protocol::ControllerFrame::kLeave:
      return become_leaving(frame.leave().reason());
    default:
      break;
  }
  // The one fence: an order of an older generation is over.
  if (frame.generation() < generation_.value && !DL_MUTANT("agent_fence_removed")) return;
  const bool newer = frame.generation() > generation_.value;
  switch (frame.body_case()) {
    case protocol::ControllerFrame::kPrepare:
    case protocol::ControllerFrame::kAbort:
    case protocol::ControllerFrame::kFindMark:
    case protocol::ControllerFrame::kInspectCheckpoints: {
      if (newer) {
        // Workers of before are not of the new generation, whatever is ordered about it.
        prepared_.reset();
        committed_.clear();
        aborted_ = false;
        stop_told_ = false;
        stop_signalled_ = false;
        kill_due_.reset();
        generation_ = Generation{frame.generation()};
      }
      if (frame.has_prepare()) return obey(now, frame.prepare());
      if (frame.has_abort()) return obey(now, frame.abort());
      if (frame.has_find_mark()) {
        out_.push_back(
            FindMark{generation_, job_.checkpoint_directory(), frame.find_mark().mark()});
        return;
      }
      out_.push_back(InspectCheckpoints{job_.checkpoint_directory(), identity_.job, lease_,
                                        frame.inspect_checkpoints().mark()});
      return;
    }
    case protocol::ControllerFrame::kCommit:
      out_.push_back(CommitCheckpoint{Generation{frame.generation()}, frame.commit()});
      return;
    default:
      break;
  }
  if (newer) return;  // the rest is about workers that this agent would have started
  switch (frame.body_case()) {
    case protocol::ControllerFrame::kAssign:
      return obey(now, frame.assign());
    case protocol::ControllerFrame::kGo:
      return obey(now, frame.go());
    case protocol::ControllerFrame::kStopWorkers:
      return obey(now, frame.stop_workers());
    case protocol::ControllerFrame::kCheckpointAt:
      return obey(frame.checkpoint_at());
    default:
      return;
  }
}

void Agent::Impl::obey(Instant now, const protocol::Welcome& order) {
  welcomed_ = true;
  lease_ = std::chrono::milliseconds(order.lease_ms());
  stop_on_lease_end_ = order.stop_on_lease_end();
  lease_due_ = now + lease_;
  heartbeat_ = std::chrono::milliseconds(std::max(1U, order.heartbeat_ms()));
  if (order.lost_after_ms() > 0) lost_after_ = std::chrono::milliseconds(order.lost_after_ms());
  job_ = order.job();
  beat(now);
  repeat_links(now);
  for (const auto& entry : evidence_.waiting()) {
    protocol::AgentFrame frame;
    *frame.mutable_evidence() = dated(entry, now);
    send(std::move(frame), entry.generation);
  }
  repeat_checkpoints();
  // Perhaps they went while nobody heard it, long after the order to end them.
  if (std::holds_alternative<Idle>(state_)) send_gone();
  if (!self_) {
    out_.push_back(CheckSelf{job_});
    return;
  }
  protocol::AgentFrame frame;
  *frame.mutable_ready() = *self_;
  send(std::move(frame));
}

void Agent::Impl::obey(Instant now, const protocol::Prepare& order) {
  if (aborted_) return;  // aborts are sent first and overtake it
  if (prepared_) return say_prepared();
  if (std::holds_alternative<Starting>(state_) &&
      prepare_.SerializeAsString() == order.SerializeAsString()) {
    return;
  }
  if (auto* clearing = std::get_if<Clearing>(&state_)) {
    clearing->next = order;
    return;
  }
  if (!workers_.empty()) return become_clearing(order);
  become_starting(now, order);
}

void Agent::Impl::become_clearing(std::optional<protocol::Prepare> next) {
  state_ = Clearing{std::move(next)};
  out_.push_back(KillAll{});
}

void Agent::Impl::become_starting(Instant now, const protocol::Prepare& prepare) {
  state_ = Starting{};
  prepare_ = prepare;
  workers_.clear();
  if (job_.trainer()) return start_workers(now, nullptr);
  if (prepare.first_rank() == 0) {
    out_.push_back(PickPort{generation_, job_.port_first(), job_.port_last()});
    return;
  }
  become_ready({});
}

void Agent::Impl::become_ready(protocol::Prepared prepared) {
  state_ = Ready{};
  prepared_ = std::move(prepared);
  say_prepared();
}

void Agent::Impl::say_prepared() {
  protocol::AgentFrame frame;
  *frame.mutable_prepared() = *prepared_;
  frame.mutable_prepared()->set_held(assigned_ ? assigned_->generation.value : 0);
  send(std::move(frame));
}

void Agent::Impl::on(Instant now, const PortPicked& e) {
  if (e.generation != generation_ || !std::holds_alternative<Starting>(state_)) return;
  if (e.port == 0) {
    protocol::Evidence evidence;
    evidence.mutable_finding()->set_kind("port_conflict");
    evidence.mutable_finding()->set_sentence("no free port could be had for MASTER_PORT");
    return testify(now, generation_, std::move(evidence));
  }
  protocol::Prepared prepared;
  auto* endpoint = prepared.add_endpoints();
  endpoint->set_rank(0);
  endpoint->set_address(self_ ? self_->facts().data_address() : "127.0.0.1");
  endpoint->set_port(e.port);
  become_ready(std::move(prepared));
}

Place Agent::Impl::place_of(Rank rank, std::uint32_t local_rank) const {
  Place place;
  place.job_id = identity_.job;
  place.host = identity_.name;
  place.generation = generation_;
  place.rank = rank;
  place.local_rank = local_rank;
  place.prepare = prepare_;
  place.data_interface = data_interface_;
  if (self_) place.data_address = self_->facts().data_address();
  return place;
}

void Agent::Impl::start_workers(Instant now, const protocol::Listening* master) {
  for (std::uint32_t local_rank = 0; local_rank < prepare_.workers(); ++local_rank) {
    const Rank rank{prepare_.first_rank() + local_rank};
    auto place = place_of(rank, local_rank);
    if (master != nullptr) {
      place.master_address = master->address;
      place.master_port = master->port;
    }
    Worker worker;
    worker.local_rank = local_rank;
    worker.started_at = now;
    worker.progressed_at = now;
    worker.status.set_rank(rank.value);
    worker.status.set_state(protocol::WORKER_STARTING);
    workers_[rank] = worker;
    out_.push_back(StartWorker{rank, local_rank, generation_, make_argv(job_, place),
                               job_.directory(), make_environment(job_, place)});
  }
}

void Agent::Impl::obey(Instant now, const protocol::Assign& order) {
  if (has_joined()) {  // the answers may have been lost, or the controller that they went to
    say_connected();
    return say_restored();
  }
  if (!std::holds_alternative<Ready>(state_)) return;
  auto endpoints = reader_(generation_, order.endpoints(), assigned_);
  if (!endpoints) {
    // Changes of a list that was lost here: asked again, the controller says all of it.
    if (order.endpoints().base() != 0) return say_prepared();
    protocol::Evidence evidence;
    evidence.mutable_finding()->set_kind("spawn_failed");
    evidence.mutable_finding()->set_sentence(endpoints.error().text());
    return testify(now, generation_, std::move(evidence));
  }
  assigned_ = std::move(*endpoints);
  become_joining(now, order);
}

void Agent::Impl::become_joining(Instant now, const protocol::Assign& order) {
  state_ = Joining{};
  if (!job_.trainer()) {
    return start_workers(now, assigned_->ranks.empty() ? nullptr : &assigned_->ranks.front());
  }
  protocol::worker::Assign assign;
  assign.job = identity_.job;
  assign.group = protocol::kGroupMain;
  assign.incarnation = Incarnation{incarnation_};
  assign.world_size = prepare_.world_size();
  assign.token = hex(order.token());
  if (order.has_restore_step()) {
    assign.restore = protocol::worker::Restore{
        Step{order.restore_step()},
        job_.checkpoint_directory() + "/step-" + std::to_string(order.restore_step())};
  }
  assign.checkpoint_directory = job_.checkpoint_directory();
  assign.trainer = settings_with(job_.trainer_settings(), order);
  for (auto& [rank, worker] : workers_) {
    assign.rank = rank;
    assign.local_rank = worker.local_rank;
    worker.status.set_state(protocol::WORKER_CONNECTING);
    out_.push_back(TellWorker{rank, generation_, {generation_, assign}, assigned_});
  }
}

void Agent::Impl::obey(Instant now, const protocol::Go&) {
  if (!std::holds_alternative<Joining>(state_)) return;
  state_ = Training{};
  for (auto& [rank, worker] : workers_) {
    if (worker.alive) worker.status.set_state(protocol::WORKER_RUNNING);
    worker.progressed_at = now;
  }
  tell_all(protocol::worker::Go{});
}

void Agent::Impl::obey(Instant, const protocol::Abort&) {
  aborted_ = true;
  protocol::AgentFrame frame;
  frame.mutable_abort_acknowledged();
  send(std::move(frame));
  if (auto* clearing = std::get_if<Clearing>(&state_)) {
    clearing->next.reset();
    return;
  }
  if (std::holds_alternative<Idle>(state_)) return send_gone();
  // Not told to the workers: SIGKILL follows at once, and one that ends by itself in between would
  // look as if it had failed.
  become_clearing(std::nullopt);
}

void Agent::Impl::obey(Instant now, const protocol::StopWorkers& order) {
  if (job_.trainer() && order.checkpoint()) {
    if (!std::exchange(stop_told_, true)) tell_all(protocol::worker::Stop{true});
    return;
  }
  if (std::exchange(stop_signalled_, true)) return;
  out_.push_back(AskWorkersToEnd{});
  kill_due_ = now + std::chrono::milliseconds(order.grace_ms());
}

void Agent::Impl::obey(const protocol::CheckpointAt&) {
  tell_all(protocol::worker::CheckpointAt{});
}

void Agent::Impl::tell_all(const protocol::AgentMessage::Body& body) {
  if (!job_.trainer()) return;
  for (const auto& [rank, worker] : workers_) {
    if (worker.alive) out_.push_back(TellWorker{rank, generation_, {generation_, body}, {}});
  }
}

}  // namespace dlaunch::supervisor::host
