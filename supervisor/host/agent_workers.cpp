// What workers say and how they end.
#include <algorithm>
#include <utility>

#include "base/probe.h"
#include "base/utf8.h"
#include "supervisor/host/agent_impl.h"

namespace dlaunch::supervisor::host {

using protocol::AgentFrame;

namespace {
constexpr std::size_t kPhaseBytesMax = 64;  // it goes out with every heartbeat

void set_figures(protocol::StepFigures& told, const protocol::worker::Figures& figures) {
  told.Clear();
  if (figures.gradient_norm) told.set_gradient_norm(*figures.gradient_norm);
  if (figures.validation_loss) told.set_validation_loss(*figures.validation_loss);
  if (figures.validation_step) told.set_validation_step(*figures.validation_step);
  told.set_step_seconds_p50(figures.seconds_p50);
  told.set_step_seconds_p95(figures.seconds_p95);
  told.set_collective_seconds(figures.collective_seconds);
  told.set_bytes_sent(figures.bytes_sent);
  told.set_memory_bytes(figures.memory_bytes);
  told.set_memory_peak_bytes(figures.memory_peak_bytes);
  told.set_flops(figures.flops);
  told.set_gemm_flops_per_second(figures.gemm_flops_per_second);
  told.set_peak_flops_per_second(figures.peak_flops_per_second);
}
}  // namespace

Worker* Agent::Impl::find(Rank rank, Generation generation) {
  if (generation != generation_) return nullptr;
  const auto found = workers_.find(rank);
  return found == workers_.end() ? nullptr : &found->second;
}

void Agent::Impl::on(Instant now, const WorkerSaid& e) {
  auto* worker = find(e.rank, e.generation);
  if (worker == nullptr || !worker->alive || e.message.generation != generation_) return;
  std::visit([&](const auto& line) { hear(now, *worker, line); }, e.message.body);
}

void Agent::Impl::on(Instant, const WorkerStarted& e) {
  auto* worker = find(e.rank, e.generation);
  if (worker == nullptr) return;
  worker->pid = e.pid;
  worker->status.set_pid(e.pid);
  if (job_.trainer() || !std::holds_alternative<Joining>(state_)) return;
  // A program joins by itself: for the generation it is connected and restored once it runs.
  worker->status.set_state(protocol::WORKER_RESTORED);
  worker->connected = true;
  worker->restored = 0;
  say_connected();
  say_restored();
}

void Agent::Impl::on(Instant now, const WorkerNotStarted& e) {
  auto* worker = find(e.rank, e.generation);
  if (worker == nullptr) return;
  worker->alive = false;
  worker->status.set_state(protocol::WORKER_EXITED);
  protocol::Evidence evidence;
  auto& finding = *evidence.mutable_finding();
  finding.set_kind("spawn_failed");
  finding.set_sentence(e.sentence);
  finding.set_rank(e.rank.value);
  out_.push_back(KeepLogs{e.generation});
  testify(now, e.generation, std::move(evidence));
}

/// Ends that the agent brought about by an abort are no news; all others are evidence, also of one
/// whose peers were so quick to miss it that the abort came first.
void Agent::Impl::on(Instant now, const WorkerEnded& e) {
  auto* worker = find(e.rank, e.generation);
  if (worker == nullptr || !worker->alive) return;
  // The loss of its last step is newer than the last heartbeat.
  if (worker->finished && beat_due_) beat(now);
  worker->alive = false;
  worker->status.set_state(protocol::WORKER_EXITED);
  const bool struck =
      std::holds_alternative<Clearing>(state_) || std::holds_alternative<Leaving>(state_);
  if (struck && !e.by_itself) return;
  if ((e.code != 0 || e.signal != 0) && !stop_signalled_) out_.push_back(KeepLogs{e.generation});
  protocol::Evidence evidence;
  auto& exited = *evidence.mutable_worker_exited();
  exited.set_rank(e.rank.value);
  exited.set_pid(e.pid);
  exited.set_code(e.code);
  exited.set_signal(e.signal);
  exited.set_out_of_memory(e.out_of_memory);
  exited.set_lived_seconds(to_seconds(now - worker->started_at));
  for (const auto& line : e.last_lines) exited.add_last_lines(line);
  exited.set_error_message(e.error_message);
  exited.set_ordered(stop_signalled_);
  exited.set_finished(worker->finished);
  // Of a program nothing more is wanted once it has ended well.
  worker->ended_well = job_.trainer() ? worker->finished : e.code == 0 && e.signal == 0;
  if (worker->status.has_step()) exited.set_step(worker->status.step());
  testify(now, e.generation, std::move(evidence));
  const bool runs = std::any_of(workers_.begin(), workers_.end(),
                                [](const auto& entry) { return entry.second.alive; });
  if (parting_due_ && !runs) on_lease_end(now);
}

void Agent::Impl::on(Instant now, const ProgramStep& e) {
  auto* worker = find(e.rank, e.generation);
  if (worker == nullptr || (worker->status.has_step() && worker->status.step() >= e.step)) return;
  worker->status.set_step(e.step);
  worker->progressed_at = now;
}

void Agent::Impl::on(Instant, const ProcessStateSeen& e) {
  auto* worker = find(e.rank, e.generation);
  if (worker != nullptr) worker->status.set_process_state(e.letter);
}

void Agent::Impl::on(Instant now, const AllGone&) {
  if (std::holds_alternative<Leaving>(state_)) return leave_now();
  auto* clearing = std::get_if<Clearing>(&state_);
  if (clearing == nullptr) return;
  workers_.clear();
  prepared_.reset();
  kill_due_.reset();
  const auto next = clearing->next;
  state_ = Idle{};
  if (next) return become_starting(now, *next);
  if (welcomed_) send_gone();
}

void Agent::Impl::on(Instant now, const Undead& e) {
  protocol::Evidence evidence;
  evidence.mutable_finding()->set_kind("undead");
  DL_PROBE("a process does not die of SIGKILL");
  evidence.mutable_finding()->set_sentence(e.sentence);
  testify(now, generation_, std::move(evidence));
  if (std::holds_alternative<Leaving>(state_)) leave_now();
}

// ---- lines

void Agent::Impl::hear(Instant now, Worker& worker, const protocol::worker::Ready& line) {
  worker.endpoint = line;
  worker.status.set_state(protocol::WORKER_READY);
  worker.progressed_at = now;
  const bool all = std::all_of(workers_.begin(), workers_.end(),
                               [](const auto& entry) { return entry.second.endpoint.has_value(); });
  if (!all || !std::holds_alternative<Starting>(state_)) return;
  protocol::Prepared prepared;
  for (const auto& [rank, ready] : workers_) {
    auto* endpoint = prepared.add_endpoints();
    endpoint->set_rank(rank.value);
    endpoint->set_address(ready.endpoint->address);
    endpoint->set_port(ready.endpoint->port);
  }
  become_ready(std::move(prepared));
}

void Agent::Impl::hear(Instant, Worker& worker, const protocol::worker::Parked& line) {
  AgentFrame frame;
  auto& parked = *frame.mutable_parked();
  parked.set_rank(worker.status.rank());
  if (line.live_step) parked.set_live_step(line.live_step->value);
  parked.set_live_clean(line.live_clean);
  send(std::move(frame));
}

void Agent::Impl::hear(Instant, Worker& worker, const protocol::worker::Connected&) {
  worker.connected = true;
  say_connected();
}

bool Agent::Impl::has_joined() const {
  return std::holds_alternative<Joining>(state_) || std::holds_alternative<Training>(state_);
}

void Agent::Impl::say_connected() {
  const bool all = std::all_of(workers_.begin(), workers_.end(),
                               [](const auto& entry) { return entry.second.connected; });
  if (!all || !has_joined()) return;
  AgentFrame frame;
  frame.mutable_connected();
  send(std::move(frame));
}

void Agent::Impl::hear(Instant now, Worker& worker, const protocol::worker::Restored& line) {
  if (!line.differs.empty()) {
    protocol::Evidence evidence;
    auto& finding = *evidence.mutable_finding();
    finding.set_kind("other_numerics");
    finding.set_sentence(to_utf8(line.differs, protocol::kFailingReasonBytesMax));
    finding.set_rank(worker.status.rank());
    testify(now, generation_, std::move(evidence));
  }
  worker.restored = line.step.value;
  worker.status.set_state(protocol::WORKER_RESTORED);
  say_restored();
}

void Agent::Impl::say_restored() {
  const bool all = std::all_of(workers_.begin(), workers_.end(),
                               [](const auto& entry) { return entry.second.restored.has_value(); });
  if (!all || workers_.empty() || !has_joined()) return;
  AgentFrame frame;
  frame.mutable_restored()->set_step(*workers_.begin()->second.restored);
  send(std::move(frame));
}

void Agent::Impl::hear(Instant now, Worker& worker, const protocol::worker::Progress& line) {
  auto& status = worker.status;
  const bool moved = !status.has_step() || status.step() != line.step.value ||
                     status.phase() != to_utf8(line.phase, kPhaseBytesMax) ||
                     status.sequence() != line.sequence;
  if (moved) worker.progressed_at = now;
  // A worker reports the step it restored, too: no step of this job is completed before the first.
  if (line.step.value > 0) status.set_step(line.step.value);
  status.set_phase(to_utf8(line.phase, kPhaseBytesMax));
  status.set_step_seconds(line.seconds);
  status.set_waiting_seconds(line.waiting);
  if (line.loss) status.set_loss(*line.loss);
  status.set_tokens(line.tokens);
  status.set_sequence(line.sequence);
  status.set_entered(line.entered);
  set_figures(*status.mutable_figures(), line.figures);
}

void Agent::Impl::hear(Instant now, Worker& worker, const protocol::worker::Written& line) {
  // What is known of that step comes before the news that it is on disk.
  if (beat_due_) tell_workers(now);
  AgentFrame frame;
  auto& written = *frame.mutable_written();
  written.set_rank(worker.status.rank());
  written.set_step(line.step.value);
  written.set_file(line.file);
  written.set_bytes(line.bytes);
  written.set_hash(line.hash);
  written.set_seconds(line.seconds);
  keep_newest(worker.written, written);
  if (parting_due_) {
    out_.push_back(NoteWritten{generation_, job_.checkpoint_directory(), written});
  }
  send(std::move(frame));
}

/// Of other hosts' shards of the same checkpoint some may have been written before their lease
/// ended.
void Agent::Impl::note_written() {
  if (aborted_ || !job_.trainer()) return;
  for (const auto& [rank, worker] : workers_) {
    for (const auto& written : worker.written) {
      out_.push_back(NoteWritten{generation_, job_.checkpoint_directory(), written});
    }
  }
}

/// On its way when the connection broke, or said while there was none. The controller ignores what
/// it has heard already.
void Agent::Impl::repeat_checkpoints() {
  if (aborted_) return;
  for (const auto& [rank, worker] : workers_) {
    for (const auto& written : worker.written) {
      AgentFrame frame;
      *frame.mutable_written() = written;
      send(std::move(frame));
    }
  }
  for (const auto& committed : committed_) {
    AgentFrame frame;
    *frame.mutable_committed() = committed;
    send(std::move(frame));
  }
}

void Agent::Impl::hear(Instant now, Worker& worker, const protocol::worker::Failing& line) {
  protocol::Evidence evidence;
  auto& failing = *evidence.mutable_worker_failing();
  failing.set_rank(worker.status.rank());
  failing.set_category(std::string(protocol::name_of(line.category)));
  failing.set_reason(to_utf8(line.reason, protocol::kFailingReasonBytesMax));
  if (line.suspect_rank) failing.set_suspect_rank(line.suspect_rank->value);
  testify(now, generation_, std::move(evidence));
}

void Agent::Impl::hear(Instant, Worker& worker, const protocol::worker::Finished& line) {
  worker.finished = true;
  if (line.step.value > 0) worker.status.set_step(line.step.value);
}

}  // namespace dlaunch::supervisor::host
