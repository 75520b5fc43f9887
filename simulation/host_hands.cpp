// The hands of a simulated host: what the agent orders is done here, after as long as it takes.
#include <utility>

#include "simulation/host.h"

namespace dlaunch::simulation {

namespace agent = supervisor::host;
namespace line = protocol::worker;

namespace {

constexpr nanoseconds kSearchPause = 1s;  // the longest
constexpr nanoseconds kForkTime = 3ms;
constexpr nanoseconds kScanTime = 25ms;  // SIGKILL and two scans of /proc
constexpr nanoseconds kUndeadAfter = 5s;
constexpr nanoseconds kSelfCheckTime = 20ms;
constexpr nanoseconds kDiskTime = 10ms;
constexpr nanoseconds kReapTime = 1ms;
constexpr nanoseconds kAlways = 24h * 3650;
constexpr int kSigterm = 15, kSigkill = 9;

agent::WorkerEnded by_signal(int number) {
  agent::WorkerEnded ended;
  ended.signal = number;
  return ended;
}

line::Progress progress_line(const Progress& progress, const char* phase, nanoseconds step_time) {
  line::Progress said;
  said.step = Step{progress.step};
  said.phase = phase;
  said.seconds = to_seconds(step_time);
  said.loss = 3.0;
  said.tokens = 1024;
  said.sequence = progress.sequence;
  said.entered = progress.entered;
  return said;
}

}  // namespace

// ---- heartbeats that are credited

void Host::credit() {
  if (setting_.single_beats || credited_ || !agent_ || frozen_since_) return;
  credited_ = true;
  ways_.path.closed();
  feed(agent::QuietUntil{own_now() + kAlways, own_now() + kAlways});
}

void Host::end_credit() {
  if (!std::exchange(credited_, false)) return;
  const auto next = rng_.between(0ns, setting_.heartbeat);
  const auto heard = rng_.between(0ns, setting_.heartbeat);
  feed(agent::QuietUntil{own_now() + next, own_now() - heard});
  if (connection_) ways_.path.opened(own_now());  // what was counted on has come until now
  watch();
}

void Host::mute() {
  if (setting_.single_beats || credited_ || muted_ || !agent_ || !connection_ || frozen_since_) {
    return;
  }
  muted_ = connection_;
  muted_at_ = own_now();
  feed(agent::QuietUntil{own_now() + kAlways, muted_at_});
}

void Host::end_mute() {
  const auto muted = std::exchange(muted_, nullptr);
  if (!muted || muted != connection_ || credited_) return;
  feed(agent::QuietUntil{own_now() + rng_.between(0ns, setting_.heartbeat), muted_at_});
  // It has looked for another way all the time, in vain, and is somewhere between two tries.
  ways_.search_due = own_now() + rng_.between(0ns, kSearchPause);
  watch();
}

/// One that is credited sends this one all the same: there is something to be told.
void Host::beat() {
  if (!credited_) return;
  const auto now = own_now();
  inbox_.push_back(agent::QuietUntil{now, now + kAlways});
  inbox_.push_back(agent::DeadlineDue{});
  feed(agent::QuietUntil{now + kAlways, now + kAlways});
}

// ---- workers

void Host::kill_worker(Rank rank, const agent::WorkerEnded& how) {
  const auto found = workers_.find(rank);
  if (found == workers_.end()) return;
  const auto worker = found->second;
  worker.gang->die(rank);
  workers_.erase(rank);
  world_.worker_ended(setting_.id, rank, worker.generation);
  auto ended = how;
  ended.rank = rank;
  ended.generation = worker.generation;
  ended.pid = worker.pid;
  later(kReapTime, ended);
}

void Host::hang_worker(Rank rank) {
  const auto found = workers_.find(rank);
  if (found != workers_.end()) found->second.gang->hang(rank);
}

void Host::data_link(bool up) { feed(agent::LinkSeen{"ib0", up, 0}); }

void Host::worker_says(Rank rank, Generation generation, Deed deed, const Progress& progress,
                       nanoseconds step_time) {
  const auto found = workers_.find(rank);
  if (found == workers_.end() || found->second.generation != generation) return;
  if (setting_.program) return program_does(rank, generation, deed, progress.step);
  const auto say = [&](line::Progress said) {
    feed(agent::WorkerSaid{rank, generation, {generation, std::move(said)}});
  };
  const auto tell = [&](protocol::WorkerMessage::Body body) {
    feed(agent::WorkerSaid{rank, generation, {generation, std::move(body)}});
  };
  switch (deed) {
    case Deed::ready:
      tell(line::Hello{1, rank, 0, 1});
      tell(line::Ready{"10.0.0.1", 4000});
      return tell(line::Parked{});
    case Deed::connected:
      return tell(line::Connected{});
    case Deed::restored:
      return tell(line::Restored{Step{progress.step}});
    case Deed::stepped:
      say(progress_line(progress, "forward", step_time));
      return beat();
    case Deed::writes:
      return say(progress_line(progress, "checkpoint", step_time));
    case Deed::written: {
      if (world_.storage_is_out()) {
        tell(line::Failing{line::FailingCategory::storage, "Input/output error", {}});
        agent::WorkerEnded ended;
        ended.code = 1;
        return kill_worker(rank, ended);
      }
      line::Written written;
      written.step = Step{progress.step};
      written.file = "shard-" + std::to_string(rank.value);
      written.bytes = 1000;
      written.hash = "00";
      world_.wrote(generation, progress.step, written.file);
      tell(std::move(written));
      say(progress_line(progress, "forward", step_time));
      return beat();
    }
    case Deed::peer_lost:
      return tell(
          line::Failing{line::FailingCategory::peer_lost, "a peer closed the connection", {}});
    case Deed::finished:
      tell(line::Finished{Step{progress.step}});
      return kill_worker(rank, {});
  }
}

/// A program is known by its process and by the steps that are found in its output.
void Host::program_does(Rank rank, Generation generation, Deed deed, std::uint64_t step) {
  agent::WorkerEnded ended;
  if (deed == Deed::stepped) {
    feed(agent::ProgramStep{rank, generation, step});
    beat();
  } else if (deed == Deed::peer_lost) {
    ended.code = 1;
    kill_worker(rank, ended);
  } else if (deed == Deed::finished) {
    kill_worker(rank, ended);
  }
}

// ---- commands of the agent

void Host::perform(agent::Send& c) {
  if (!connection_) return;
  c.frame.set_acknowledged(received_);
  c.frame.set_number(++ways_.sent);
  if (!credited_) ways_.path.sent(ways_.sent, own_now());
  const auto kind = c.frame.has_heartbeat() ? Connection::Kind::beat : Connection::Kind::frame;
  connection_->to_controller(
      [this, connection = connection_,
       frame = std::make_shared<protocol::AgentFrame>(std::move(c.frame))] {
        world_.frame_to_controller(setting_.id, connection, std::move(*frame));
      },
      kind);
}

void Host::perform(agent::Reconnect& c) { connection_lost(connection_, c.reason); }

void Host::perform(agent::StartWorker& c) {
  auto& gang = world_.worker_started(setting_.id, c.rank, c.generation);
  const Worker worker{c.generation, ++pids_, &gang};
  workers_[c.rank] = worker;
  gang.start(c.rank);
  if (setting_.program) {
    const auto world_size = c.environment.find("WORLD_SIZE");
    const auto size = world_size == c.environment.end() ? 0 : std::stoul(world_size->second);
    if (gang.assign(c.rank, static_cast<std::uint32_t>(size), std::nullopt)) gang.go(c.rank);
  }
  later(kForkTime, agent::WorkerStarted{c.rank, c.generation, worker.pid});
}

void Host::perform(agent::TellWorker& c) {
  const auto found = workers_.find(c.rank);
  if (found == workers_.end() || found->second.generation != c.generation) return;
  world_.worker_told(setting_.id, c, *found->second.gang);
}

void Host::perform(agent::AskWorkersToEnd&) {
  for (const auto& [rank, worker] : std::map(workers_)) kill_worker(rank, by_signal(kSigterm));
}

/// What sleeps in the kernel goes as soon as it wakes; until then it is said to be undead.
void Host::perform(agent::KillAll&) {
  const auto sweep = ++sweeps_;
  if (undead_until_ <= queue_.now()) {
    for (const auto& [rank, worker] : std::map(workers_)) kill_worker(rank, by_signal(kSigkill));
    queue_.after(kScanTime, [this, sweep, life = agents_] {
      if (agent_ && life == agents_ && sweep == sweeps_) feed(agent::AllGone{});
    });
    return;
  }
  if (undead_until_ > queue_.now() + kUndeadAfter) {
    later(kUndeadAfter, agent::Undead{"a process does not die of SIGKILL"});
  }
  queue_.at(undead_until_, [this, sweep, life = agents_] {
    if (!agent_ || life != agents_ || sweep != sweeps_) return;
    agent::KillAll again;
    perform(again);
  });
}

void Host::perform(agent::PickPort& c) { later(kReapTime, agent::PortPicked{c.generation, 29500}); }

void Host::perform(agent::CheckSelf&) {
  agent::SelfChecked checked;
  checked.ready.mutable_facts()->set_workers(setting_.workers);
  checked.ready.mutable_facts()->set_data_address("10.0.0." + std::to_string(setting_.id.value));
  checked.ready.mutable_facts()->set_probe_port(probe_port());
  checked.ready.mutable_facts()->set_relay_port(relay_port());
  later(kSelfCheckTime, checked);
}

void Host::perform(agent::KnowPeers& c) {
  if (!probes_) return;
  world_.probes(setting_.id, c.peers);
  ways_.relays.clear();
  for (const auto& peer : c.peers.peers()) {
    if (peer.relay_port() != 0) ways_.relays.push_back(peer);
  }
  probes_->know(std::move(c.peers), c.lost_after);
}

void Host::perform(agent::CommitCheckpoint& c) {
  later(kDiskTime, agent::CommitDone{c.generation, c.commit.step(),
                                     world_.commit(setting_.id, c.generation, c.commit)});
}

void Host::perform(agent::InspectCheckpoints&) {
  later(kDiskTime, agent::Inspected{world_.inspect()});
}

/// All simulated hosts see the one storage, or none does.
void Host::perform(agent::FindMark& c) {
  later(kDiskTime,
        agent::MarkLooked{c.generation, world_.storage_is_out() ? "Input/output error" : ""});
}

void Host::perform(agent::Exit&) { uproot(); }

}  // namespace dlaunch::simulation
