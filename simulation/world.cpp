#include "simulation/world.h"

#include <algorithm>
#include <utility>

#include "simulation/injector.h"
#include "simulation/setting.h"

namespace dlaunch::simulation {
namespace {

namespace control = launcher::controller;
namespace job = supervisor::job;

constexpr Instant kStart = Instant{} + 1h;
// Agents that no controller reaches leave at the end of their lease; SIGKILL takes a moment more.
constexpr nanoseconds kAfterTheEnd = 2min;
// Stop grace, a last checkpoint and its commit, and 15 s for agents to leave.
constexpr nanoseconds kEndLimit = 5min;
constexpr std::size_t kLinksKept = 4;

std::string name_of_host(HostId host) { return "h" + std::to_string(host.value); }

std::string name_of_station(const Station& station) {
  return "c" + std::to_string(station.incarnation().value) + ".g" +
         std::to_string(station.generation().value);
}

/// Streams of dice that do not depend on each other.
std::uint64_t stream(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + number * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

}  // namespace

World::World(Scenario scenario, std::uint64_t seed, Trace::Sink sink)
    : scenario_(std::move(scenario)),
      trace_(kStart, std::move(sink)),
      queue_(kStart),
      run_db_(queue_),
      safety_({scenario_.restarts, 1h, scenario_.program}),
      line_dice_(stream(seed, 2)),
      gang_dice_(stream(seed, 3)),
      seed_(seed) {
  outcome_.seed = seed;
  ending_ = scenario_.ending;
  if (ending_ == Ending::by_seed) {
    constexpr std::array kEndings = {Ending::stop, Ending::stop, Ending::stop_now, Ending::preempt};
    ending_ = kEndings[stream(seed, 4) % kEndings.size()];
  }
  const auto heartbeat = heartbeat_of(scenario_);
  for (std::uint32_t i = 0; i < scenario_.hosts + scenario_.spares; ++i) {
    Host::Setting setting{HostId{i},
                          kJobId,
                          scenario_.workers,
                          scenario_.program,
                          scenario_.single_beats,
                          heartbeat,
                          scenario_.link_delay_min,
                          scenario_.link_delay_max,
                          scenario_.data_paths};
    hosts_[HostId{i}] =
        std::make_unique<Host>(std::move(setting), queue_, stream(seed, 1000 + i), *this);
  }
  for (auto i = scenario_.hosts - scenario_.behind_nat; i < scenario_.hosts; ++i) {
    hosts_.at(HostId{i})->block_dialling(true);
  }
  injector_ = std::make_unique<Injector>(*this, scenario_, stream(seed, 1));
}

World::~World() = default;

// ---- the run

Outcome World::run() {
  start_station();
  injector_->start();
  run_until(kStart + scenario_.duration);
  injector_->heal_all();
  note("heal", "all faults are healed");
  check_liveness();
  bring_to_end();
  run_until(queue_.now() + kAfterTheEnd);
  check_end();
  finish_outcome();
  return std::move(outcome_);
}

void World::run_until(Instant limit) {
  while (queue_.run_next(limit)) {
  }
}

/// L1 and L2, within the stated time.
void World::check_liveness() {
  const auto limit = queue_.now() + scenario_.heal_within;
  auto missing = why_not_recovered();
  while (!ended_ && !missing.empty() && queue_.now() < limit) {
    run_until(std::min(limit, queue_.now() + 1s));
    missing = why_not_recovered();
  }
  if (ended_) {
    if (outcome_.sentence.empty()) broken("L1: the job ended without a reason");
  } else if (!missing.empty()) {
    broken("L1: " + std::to_string(scenario_.heal_within / 1s) +
           " s after the last fault: " + missing);
  }
}

/// The newest generation trains, is the one that the controller means, and nothing else lives;
/// empty, or what is missing for that.
std::string World::why_not_recovered() {
  if (!station().alive()) return "there is no controller";
  const auto state = station().state();
  if (state != job::JobState::running) {
    return std::string("the job is ") + to_string(state) + ": " + station().machine().job().reason;
  }
  const auto* gang = newest_gang();
  if (gang == nullptr || crews_.rbegin()->first != station().generation()) {
    return "L2: the newest workers are not of the controller's generation";
  }
  if (!gang->is_training() || gang->alive() < gang->world_size()) return "it does not train";
  for (const auto& [id, host] : hosts_) {
    if (host->workers().empty()) continue;
    const auto generation = host->workers().begin()->second.generation;
    if (generation == station().generation()) continue;
    return "L2: on " + name_of_host(id) + " workers of generation " +
           std::to_string(generation.value) + " still live";
  }
  return "";
}

void World::bring_to_end() {
  if (ended_) return;
  job::StopAsked wish;
  wish.reason = "the simulation ends";
  wish.now = ending_ == Ending::stop_now;
  wish.preempted = ending_ == Ending::preempt;
  if (ending_ != Ending::finish) station().ask(control::ForJob{wish});
  const auto limit = queue_.now() + (ending_ == Ending::finish ? scenario_.duration : kEndLimit);
  while (!ended_ && queue_.now() < limit) {
    run_until(std::min(limit, queue_.now() + 1s));
  }
  if (!ended_) broken("L1: the job was told to end and did not");
}

void World::check_end() {
  for (const auto& [id, host] : hosts_) {
    if (!host->workers().empty()) broken("S5: " + name_of_host(id) + " still has workers");
    if (ended_ && host->has_agent()) broken("S5: " + name_of_host(id) + " still has an agent");
  }
}

void World::check_expectations() {
  const auto& expect = scenario_.expect;
  const bool never_began = outcome_.generations == 0;  // its hosts could not be had at the start
  if (outcome_.code && !never_began && !expect.codes.contains(*outcome_.code)) {
    broken("expected: it ended with " + std::to_string(*outcome_.code) + ": " + outcome_.sentence);
  }
  if (expect.generations_max && outcome_.generations > *expect.generations_max) {
    broken("expected: at most " + std::to_string(*expect.generations_max) + " generations, not " +
           std::to_string(outcome_.generations));
  }
  std::uint64_t incidents = 0;
  for (const auto& [cause, count] : outcome_.incidents) incidents += count;
  if (expect.incidents_min && incidents < *expect.incidents_min) {
    broken("expected: at least " + std::to_string(*expect.incidents_min) + " incidents, not " +
           std::to_string(incidents));
  }
  if (expect.tunnels_max && outcome_.tunnels > *expect.tunnels_max) {
    broken("expected: at most " + std::to_string(*expect.tunnels_max) + " tunnels are taken, not " +
           std::to_string(outcome_.tunnels));
  }
  if (expect.goodput_min && outcome_.goodput < *expect.goodput_min) {
    broken("expected: a goodput of " + std::to_string(*expect.goodput_min) + ", not " +
           std::to_string(outcome_.goodput));
  }
}

void World::finish_outcome() {
  outcome_.simulated_seconds = to_seconds(queue_.now() - kStart);
  outcome_.steps = storage_.newest_step();
  outcome_.goodput = outcome_.simulated_seconds > 0
                         ? to_seconds(scenario_.training.step_time) *
                               static_cast<double>(outcome_.steps) /
                               (outcome_.simulated_seconds - to_seconds(kAfterTheEnd))
                         : 0;
  outcome_.generations = station().generation().value;
  outcome_.faults = injector_->applied();
  outcome_.events = queue_.count();
  check_expectations();
  for (const auto& rule : safety_.rules_broken()) outcome_.broken.push_back(rule);
  outcome_.hash = trace_.hash() ^ queue_.order_hash();
}

// ---- controllers and their lines

Station& World::start_station() {
  const auto number = stations_.size() + 1;
  for (const auto& older : stations_) older->bury();
  auto setting = make_setting(scenario_);
  setting.incarnation = Incarnation{number};
  setting.recovered = control::recover(run_db_.rows(), outcome_.incidents.size());
  stations_.push_back(std::make_unique<Station>(
      std::move(setting), stream(seed_, 100 + number),
      Station::Parts{queue_, hosts_, run_db_, *this, ssh_, scenario_.single_beats}));
  stations_.back()->begin();
  return *stations_.back();
}

Station* World::controller_to_dial() {
  std::vector<Station*> answering;
  for (auto entry = stations_.rbegin(); entry != stations_.rend(); ++entry) {
    if (!ended_ && (*entry)->answers()) answering.push_back(entry->get());
    if (answering.size() == 2 || entry - stations_.rbegin() == 1) break;
  }
  if (answering.empty()) return nullptr;
  return answering[answering.size() == 1 ? 0 : line_dice_.below(answering.size())];
}

std::shared_ptr<Connection> World::connect(HostId host, Station& controller, Through through) {
  if (ended_ || !controller.answers()) return nullptr;
  outcome_.tunnels += through.over_ssh ? 1 : 0;
  auto& owner = *hosts_.at(host);
  auto& carrier = through.relay ? *hosts_.at(*through.relay) : owner;
  const auto cell = std::make_shared<std::weak_ptr<Connection>>();
  Connection::Setting setting{++connections_,           host.value, scenario_.link_delay_min,
                              scenario_.link_delay_max, through,    {}};
  if (through.relay) {
    setting.relay_passes = [this, host, &carrier] {
      return reaches(host, carrier.id()) && !carrier.is_frozen();
    };
  }
  auto connection = std::make_shared<Connection>(
      std::move(setting), carrier.line(), controller.cuts(), queue_, line_dice_,
      [&owner, cell] { owner.connection_lost(cell->lock(), "nothing was acknowledged for 10 s"); });
  *cell = connection;
  auto& links = links_[host];
  std::erase_if(links, [](const auto& link) { return link.expired(); });
  if (links.size() >= kLinksKept) links.erase(links.begin());
  links.push_back(connection);
  if (through.relay) {
    auto& pipes = pipes_[*through.relay];
    std::erase_if(pipes, [](const auto& pipe) { return pipe.expired(); });
    pipes.push_back(connection);
  }
  connection->belongs_to = &controller;
  return connection;
}

void World::flush(HostId host) {
  for (const auto* links : {&links_[host], &pipes_[host]}) {
    for (const auto& link : *links) {
      if (const auto connection = link.lock()) connection->flush();
    }
  }
}

void World::broke(const std::shared_ptr<Connection>& connection, bool said) {
  constexpr nanoseconds kNotice = 2ms;
  if (connection->is_broken()) return;
  connection->break_off();
  if (!said) return;
  queue_.after(kNotice, [this, connection] {
    hosts_.at(connection->host())->connection_lost(connection, "what passed it on is gone");
    connection_closed(connection->host(), connection, "what passed it on is gone");
  });
}

void World::line_changed(HostId host) {
  const auto workers = hosts_.at(host)->workers();
  for (const auto& [rank, worker] : workers) worker.gang->tell(rank);
  station().end_credit(host);
}

void World::all_lines_changed() {
  for (const auto& [id, host] : hosts_) line_changed(id);
}

void World::line_healed(HostId host) { flush(host); }

void World::all_healed(Station&) {
  for (const auto& [id, host] : hosts_) flush(id);
}

void World::mute_all(const Station& station) {
  for (const auto& [id, host] : hosts_) {
    if (host->connection() && host->connection()->belongs_to == &station) host->mute();
  }
}

void World::end_mute_all() {
  for (const auto& [id, host] : hosts_) host->end_mute();
}

Gang* World::newest_gang() { return crews_.empty() ? nullptr : crews_.rbegin()->second.gang.get(); }

void World::frame_to_controller(HostId host, const std::shared_ptr<Connection>& connection,
                                protocol::AgentFrame&& frame) {
  connection->belongs_to->frame_from_host(host, connection, std::move(frame));
}

void World::connection_closed(HostId host, const std::shared_ptr<Connection>& connection,
                              const std::string& reason) {
  connection->belongs_to->connection_closed(host, connection, reason);
}

// ---- workers and their storage

void World::note(const std::string& what, const std::string& detail) {
  trace_.add(queue_.now(), "world", what, detail);
}

void World::broken(std::string rule) {
  note("BROKEN", rule);
  if (outcome_.trace.empty()) {
    outcome_.trace.assign(trace_.newest().begin(), trace_.newest().end());
  }
  safety_.broken(std::move(rule));
}

void World::said(const Station& station, const std::string& column, std::string text) {
  trace_.add(queue_.now(), name_of_station(station), column, text);
}

void World::recorded(const Station& station, const job::Record& record) {
  auto text = record.host ? name_of_host(*record.host) : std::string();
  if (record.rank) text += (text.empty() ? "rank " : " rank ") + std::to_string(record.rank->value);
  if (record.step) text += (text.empty() ? "step " : " step ") + std::to_string(record.step->value);
  if (scenario_.keep_decisions) {
    outcome_.decisions.push_back(record.event + " " + text + " g" +
                                 std::to_string(record.generation.value));
  }
  if (!record.detail.empty()) text += (text.empty() ? "" : " ") + record.detail;
  trace_.add(queue_.now(), name_of_station(station), record.event, text);
  // What one that was followed still decides has no effect, and is no spend.
  if (is_newest(station)) safety_.recorded(queue_.now(), record);
}

void World::incident_changed(const job::Incident& incident) {
  safety_.incident_changed(incident);
  if (!incident.closed) return;
  ++outcome_.incidents[incident.cause];
  outcome_.recovery_seconds.push_back(incident.seconds.total);
}

void World::state_became(const Station& station, const job::StateBecame& state) {
  trace_.add(queue_.now(), name_of_station(station), to_string(state.state), state.reason);
  if (state.state != job::JobState::running || &station != stations_.back().get()) return;
  queue_.after(0ns, [this] {
    if (auto* gang = newest_gang(); gang != nullptr && gang->is_training()) gang->taken_over();
  });
}

void World::ended(const Station& station, int code, const std::string& sentence) {
  trace_.add(queue_.now(), name_of_station(station), "ended",
             std::to_string(code) + ": " + sentence);
  if (&station != stations_.back().get()) return;  // one that was replaced ends for itself
  ended_ = true;
  outcome_.code = code;
  outcome_.sentence = sentence;
}

}  // namespace dlaunch::simulation
