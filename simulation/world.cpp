#include "simulation/world.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "simulation/setting.h"

namespace dlaunch::simulation {
namespace {

namespace control = launcher::controller;
namespace launch = launcher::launch;

constexpr nanoseconds kSshTime = 150ms;
constexpr nanoseconds kSshSpread = 100ms;
constexpr Instant kStart = Instant{} + 1h;

std::string name_of(HostId host) { return "h" + std::to_string(host.value); }

}  // namespace

World::World(Scenario scenario)
    : scenario_(scenario), rng_(scenario.seed), queue_(kStart), faults_left_(scenario.faults) {
  const auto count = scenario_.hosts + scenario_.spares;
  for (std::uint32_t i = 0; i < count; ++i) {
    hosts_[HostId{i}] =
        std::make_unique<Host>(HostId{i}, kJobId, scenario_.workers, queue_, rng_, *this);
  }
  controller_ = std::make_unique<control::Controller>(make_setting(scenario_), rng_, queue_.now());
}

Outcome World::run() {
  feed(control::Begin{});
  if (faults_left_ > 0) queue_.after(scenario_.fault_every, [this] { inject(); });
  const auto limit = kStart + scenario_.limit;
  while (!outcome_.code && queue_.run_next(limit)) {
  }
  // Agents have until the end of their lease to leave a controller that is gone.
  const auto settle = queue_.now() + 2min;
  while (queue_.run_next(settle)) {
  }
  check_end();
  outcome_.events = queue_.count();
  outcome_.committed_step = storage_.newest_step();
  const auto job = controller_->job();
  outcome_.generations = job.generation.value;
  outcome_.incidents = job.incidents.size();
  return std::move(outcome_);
}

void World::feed(const control::Event& event) {
  if (outcome_.code) return;
  auto commands = controller_->step(queue_.now(), event);
  for (auto& command : commands) {
    std::visit([this](auto& c) { perform(c); }, command);
  }
  if (!outcome_.code) arm();
}

void World::arm() {
  const auto due = controller_->next_deadline();
  if (!due || (armed_ && *armed_ <= *due && *armed_ > queue_.now())) return;
  armed_ = *due;
  queue_.at(*due, [this, due = *due] {
    if (armed_ != due) return;
    armed_.reset();
    const auto present = controller_->next_deadline();
    if (present && *present <= queue_.now()) {
      feed(control::DeadlineDue{});
    } else {
      arm();
    }
  });
}

void World::trace(const std::string& line) {
  const auto stamp = std::to_string((queue_.now() - kStart) / 1ms) + " ms  " + line;
  for (const char c : stamp) {
    outcome_.trace_hash = (outcome_.trace_hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  outcome_.trace.push_back(stamp);
  if (outcome_.trace.size() > kTraceLinesMax) outcome_.trace.erase(outcome_.trace.begin());
}

void World::broken(std::string rule) {
  trace("BROKEN " + rule);
  outcome_.broken.push_back(std::move(rule));
}

// ---- the controller's hands

void World::perform(control::SendToHosts& c) {
  for (const auto id : c.hosts) {
    auto& host = *hosts_.at(id);
    const auto connection = connection_[id];
    if (connection == 0 || connection != host.link().connection()) continue;
    auto& sent = sent_at_[id];
    sent.push_back(queue_.now());
    auto frame = c.frame;
    frame.set_number(sent.size());
    if (frame.has_assign()) frame.mutable_assign()->set_token("token");
    host.link().to_host([&host, connection, frame = std::move(frame)] {
      host.frame_from_controller(connection, frame);
    });
  }
}

void World::perform(control::CloseConnection& c) {
  trace("close " + name_of(c.host) + ": " + c.reason);
  auto& host = *hosts_.at(c.host);
  host.link().to_host([&host] { host.connection_lost(); });
  connection_[c.host] = 0;
}

void World::perform(control::PlantOrder& c) {
  if (const auto* order = std::get_if<launch::Plant>(&c.command))
    plant(order->host, order->attempt);
}

void World::plant(HostId id, std::uint64_t attempt) {
  const auto delay = kSshTime + rng_.between(0ns, kSshSpread);
  queue_.after(delay, [this, id, attempt] {
    auto& host = *hosts_.at(id);
    if (!host.up() || !host.link().passes_both_ways()) {
      feed(control::LaunchReported{
          launch::PlantFailed{id, attempt, launch::Cause::silent, "silent"}});
      return;
    }
    if (!host.has_agent()) host.start_agent();
    feed(control::LaunchReported{launch::PlantProgress{id, attempt, launch::Stage::connected}});
    feed(control::LaunchReported{launch::PlantProgress{id, attempt, launch::Stage::started}});
    feed(control::LaunchReported{launch::Planted{id, attempt}});
  });
}

void World::perform(control::FromJob& c) {
  std::visit(
      Overloaded{[&](supervisor::job::Journal& journal) {
                   queue_.after(4ms, [this, ticket = journal.ticket] {
                     feed(control::ForJob{supervisor::job::Journaled{ticket}});
                   });
                 },
                 [&](supervisor::job::Record& record) {
                   trace(record.event + (record.host ? " " + name_of(*record.host) : "") + " g" +
                         std::to_string(record.generation.value) + " " + record.detail);
                 },
                 [&](supervisor::job::StateBecame& state) {
                   trace(std::string("state ") + to_string(state.state) + ": " + state.reason);
                 },
                 [](auto&) {}},
      c.command);
}

void World::perform(control::Say& c) { trace("say " + c.sentence); }

void World::perform(control::Ended& c) {
  trace("ended " + std::to_string(c.code) + ": " + c.sentence);
  outcome_.code = c.code;
  outcome_.sentence = c.sentence;
  for (auto& [id, host] : hosts_) {
    host->link().to_host([&host = *host] { host.connection_lost(); });
  }
}

// ---- what hosts ask for

void World::frame_to_controller(HostId host, std::uint64_t connection,
                                const protocol::AgentFrame& frame) {
  if (frame.has_hello()) {
    connection_[host] = connection;
    sent_at_[host].clear();
  }
  if (connection_[host] != connection) return;
  const auto& sent = sent_at_[host];
  std::optional<Instant> acknowledged;
  if (frame.acknowledged() > 0 && frame.acknowledged() <= sent.size()) {
    acknowledged = sent[frame.acknowledged() - 1];
  }
  feed(control::AgentFrameCame{host, connection, acknowledged, frame});
}

void World::connection_closed(HostId host, std::uint64_t connection) {
  if (connection_[host] == connection) connection_[host] = 0;
  feed(control::AgentConnectionClosed{host, connection, "closed"});
}

Gang& World::gang(Generation generation) {
  auto& entry = gangs_[generation];
  if (!entry) {
    placed_.clear();
    entry = std::make_unique<Gang>(queue_, scenario_.training,
                                   [this, generation](Rank rank, Deed what, std::uint64_t step) {
                                     deed(generation, rank, what, step);
                                   });
  }
  return *entry;
}

void World::worker_started(HostId host, Rank rank, Generation generation) {
  if (!gangs_.empty() && generation < gangs_.rbegin()->first) {
    broken("S2: " + name_of(host) + " starts a worker of generation " +
           std::to_string(generation.value) + ", which is over");
  }
  for (const auto& [id, other] : hosts_) {
    const auto found = other->workers().find(rank);
    if (id != host && found != other->workers().end() && found->second.generation == generation) {
      broken("S1: rank " + std::to_string(rank.value) + " of generation " +
             std::to_string(generation.value) + " lives on two hosts");
    }
  }
  gang(generation).start(rank);
  placed_[rank] = host;
}

void World::worker_killed(HostId, Rank rank, Generation generation) { gang(generation).die(rank); }

void World::worker_told(HostId, Rank rank, Generation generation,
                        const protocol::AgentMessage& message) {
  namespace line = protocol::worker;
  std::visit(
      Overloaded{[&](const line::Assign& assign) {
                   std::optional<std::uint64_t> step;
                   if (assign.restore) step = assign.restore->step.value;
                   gang(generation).assign(rank, assign.world_size, step);
                 },
                 [&](const line::Go&) { gang(generation).go(rank); },
                 [&](const line::CheckpointAt&) { gang(generation).request_checkpoint(); },
                 [&](const line::Stop&) { gang(generation).request_stop(); }, [](const auto&) {}},
      message.body);
}

void World::deed(Generation generation, Rank rank, Deed what, std::uint64_t step) {
  namespace line = protocol::worker;
  if (generation != gangs_.rbegin()->first || !placed_.contains(rank)) return;
  auto& host = *hosts_.at(placed_.at(rank));
  switch (what) {
    case Deed::ready:
      host.worker_says(rank, generation, line::Hello{1, rank, 0, 1});
      host.worker_says(rank, generation, line::Ready{"10.0.0.1", 4000});
      return host.worker_says(rank, generation, line::Parked{});
    case Deed::connected:
      return host.worker_says(rank, generation, line::Connected{});
    case Deed::restored:
      return host.worker_says(rank, generation, line::Restored{Step{step}});
    case Deed::stepped: {
      line::Progress progress;
      progress.step = Step{step};
      progress.phase = "forward";
      progress.seconds = to_seconds(scenario_.training.step_time);
      progress.loss = 3.0;
      progress.tokens = 1024;
      progress.sequence = step;
      return host.worker_says(rank, generation, progress);
    }
    case Deed::written: {
      line::Written written;
      written.step = Step{step};
      written.file = "shard-" + std::to_string(rank.value);
      written.bytes = 1000;
      written.hash = "00";
      storage_.write(generation.value, step, written.file);
      return host.worker_says(rank, generation, written);
    }
    case Deed::peer_lost:
      return host.worker_says(
          rank, generation,
          line::Failing{line::FailingCategory::peer_lost, "a peer closed the connection", {}});
    case Deed::finished:
      host.worker_says(rank, generation, line::Finished{Step{step}});
      return host.worker_exits(rank, generation, 0);
  }
}

std::string World::commit(Generation generation, const protocol::Commit& order) {
  if (generation.value < storage_.newest_publisher()) {
    broken("S1: generation " + std::to_string(generation.value) + " publishes a checkpoint after " +
           std::to_string(storage_.newest_publisher()));
  }
  return storage_.commit(generation.value, order);
}

protocol::CheckpointsFound World::inspect() { return storage_.inspect(); }

void World::check_end() {
  for (const auto& [id, host] : hosts_) {
    if (!host->workers().empty()) broken("S5: " + name_of(id) + " still has workers");
    if (outcome_.code && host->has_agent()) broken("S5: " + name_of(id) + " still has an agent");
  }
}

}  // namespace dlaunch::simulation
