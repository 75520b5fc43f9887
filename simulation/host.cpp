#include "simulation/host.h"

#include <utility>

namespace dlaunch::simulation {
namespace {

namespace agent = supervisor::host;

constexpr nanoseconds kForkTime = 3ms;
constexpr nanoseconds kScanTime = 25ms;  // SIGKILL and two scans of /proc
constexpr nanoseconds kSelfCheckTime = 20ms;
constexpr nanoseconds kDiskTime = 10ms;
constexpr nanoseconds kRedialMin = 100ms;
constexpr nanoseconds kRedialMax = 1s;
constexpr int kSigkill = 9;

}  // namespace

Host::Host(HostId id, std::string job, std::uint32_t workers, EventQueue& queue, Rng& rng,
           Surroundings& world)
    : id_(id),
      job_(std::move(job)),
      worker_count_(workers),
      queue_(queue),
      rng_(rng),
      world_(world),
      link_(queue, rng) {}

void Host::start_agent() {
  if (!up_) return;
  end_workers();
  ++agents_;
  agent::Identity identity;
  identity.job = job_;
  identity.host = id_;
  identity.name = "h" + std::to_string(id_.value);
  identity.build = "simulated";
  identity.boot_id = "boot-" + std::to_string(boots_);
  identity.agent = boots_ * 1'000'000 + agents_;
  identity.pid = ++pids_;
  agent_ = std::make_unique<agent::Agent>(identity, queue_.now());
  armed_.reset();
  dial();
  arm();
}

void Host::kill_agent() {
  if (!agent_) return;
  agent_.reset();
  end_workers();
  if (link_.is_open()) {
    link_.to_controller(
        [this, connection = link_.connection()] { world_.connection_closed(id_, connection); });
  }
  queue_.after(kForkTime, [this, life = agents_] {
    if (up_ && !agent_ && life == agents_) start_agent();
  });
}

void Host::crash() {
  up_ = false;
  agent_.reset();
  end_workers();
  link_.close();
}

void Host::reboot() {
  ++boots_;
  up_ = true;
}

void Host::end_workers() {
  for (const auto& [rank, worker] : std::exchange(workers_, {})) {
    world_.worker_killed(id_, rank, worker.generation);
  }
}

void Host::dial() {
  const auto delay = rng_.between(kRedialMin, kRedialMax) / (received_ == 0 ? 10 : 1);
  queue_.after(delay, [this, life = agents_] {
    if (!agent_ || life != agents_ || link_.is_open()) return;
    if (!link_.passes_both_ways() || !world_.controller_is_there()) return dial();
    link_.open();
    received_ = 0;
    feed(agent::ConnectionUp{});
  });
}

void Host::connection_lost() {
  if (!link_.is_open()) return;
  link_.close();
  if (!agent_) return;
  feed(agent::ConnectionDown{"closed by the controller"});
  dial();
}

void Host::feed(const agent::Event& event) {
  if (!agent_) return;
  auto commands = agent_->step(queue_.now(), event);
  const auto life = agents_;
  for (auto& command : commands) {
    if (!agent_ || life != agents_) return;
    std::visit([this](auto& c) { perform(c); }, command);
  }
  if (agent_ && life == agents_) arm();
}

void Host::later(nanoseconds delay, agent::Event event) {
  queue_.after(delay, [this, life = agents_, event = std::move(event)] {
    if (agent_ && life == agents_) feed(event);
  });
}

void Host::arm() {
  const auto due = agent_->next_deadline();
  if (!due || (armed_ && *armed_ <= *due && *armed_ > queue_.now())) return;
  armed_ = *due;
  queue_.at(*due, [this, life = agents_, due = *due] {
    if (!agent_ || life != agents_ || armed_ != due) return;
    armed_.reset();
    const auto present = agent_->next_deadline();
    if (present && *present <= queue_.now()) {
      feed(agent::DeadlineDue{});
    } else {
      arm();
    }
  });
}

void Host::kill_worker(Rank rank, int signal) {
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return;
  const auto worker = found->second;
  workers_.erase(found);
  world_.worker_killed(id_, rank, worker.generation);
  agent::WorkerEnded ended;
  ended.rank = rank;
  ended.generation = worker.generation;
  ended.pid = worker.pid;
  ended.signal = signal;
  later(1ms, ended);
}

void Host::worker_says(Rank rank, Generation generation, protocol::WorkerMessage::Body body) {
  const auto found = workers_.find(rank);
  if (found == workers_.end() || found->second.generation != generation) return;
  feed(agent::WorkerSaid{rank, generation, {generation, std::move(body)}});
}

void Host::worker_exits(Rank rank, Generation generation, int code) {
  const auto found = workers_.find(rank);
  if (found == workers_.end() || found->second.generation != generation) return;
  agent::WorkerEnded ended;
  ended.rank = rank;
  ended.generation = generation;
  ended.pid = found->second.pid;
  ended.code = code;
  workers_.erase(found);
  world_.worker_killed(id_, rank, generation);
  feed(ended);
}

void Host::frame_from_controller(std::uint64_t connection, const protocol::ControllerFrame& frame) {
  if (!agent_ || connection != link_.connection()) return;
  received_ = frame.number();
  feed(agent::FromController{frame});
}

void Host::perform(agent::Send& c) {
  if (!link_.is_open()) return;
  c.frame.set_acknowledged(received_);
  link_.to_controller([this, connection = link_.connection(), frame = std::move(c.frame)] {
    world_.frame_to_controller(id_, connection, frame);
  });
}

void Host::perform(agent::Reconnect&) {
  const auto connection = link_.connection();
  link_.to_controller([this, connection] { world_.connection_closed(id_, connection); });
  link_.close();
  dial();
}

void Host::perform(agent::StartWorker& c) {
  const Worker worker{c.generation, ++pids_};
  workers_[c.rank] = worker;
  world_.worker_started(id_, c.rank, c.generation);
  later(kForkTime, agent::WorkerStarted{c.rank, c.generation, worker.pid});
}

void Host::perform(agent::TellWorker& c) {
  world_.worker_told(id_, c.rank, c.generation, c.message);
}

void Host::perform(agent::AskWorkersToEnd&) {
  for (const auto& [rank, worker] : std::map(workers_)) kill_worker(rank, 15);
}

void Host::perform(agent::KillAll&) {
  for (const auto& [rank, worker] : std::map(workers_)) kill_worker(rank, kSigkill);
  later(kScanTime, agent::AllGone{});
}

void Host::perform(agent::PickPort& c) { later(1ms, agent::PortPicked{c.generation, 29500}); }

void Host::perform(agent::CheckSelf&) {
  agent::SelfChecked checked;
  checked.ready.mutable_facts()->set_workers(worker_count_);
  checked.ready.mutable_facts()->set_data_address("10.0.0." + std::to_string(id_.value));
  later(kSelfCheckTime, checked);
}

void Host::perform(agent::CommitCheckpoint& c) {
  later(kDiskTime,
        agent::CommitDone{c.generation, c.commit.step(), world_.commit(c.generation, c.commit)});
}

void Host::perform(agent::InspectCheckpoints&) {
  later(kDiskTime, agent::Inspected{world_.inspect()});
}

/// All simulated hosts see the one storage.
void Host::perform(agent::FindMark& c) { later(kDiskTime, agent::MarkLooked{c.generation, ""}); }

void Host::perform(agent::Exit&) {
  end_workers();
  agent_.reset();
  if (link_.is_open()) {
    link_.to_controller(
        [this, connection = link_.connection()] { world_.connection_closed(id_, connection); });
  }
}

}  // namespace dlaunch::simulation
