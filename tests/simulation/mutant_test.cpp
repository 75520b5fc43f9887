// Deliberate bugs in the machines: each must be seen by the simulation. Compiled with the machines'
// sources that hold them (CMakeLists.txt), so that no product has them.
#include "base/mutant.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "simulation/world.h"
#include "supervisor/host/agent.h"
#include "supervisor/job/job.h"
#include "tests/simulation/telling.h"

namespace dlaunch {
namespace {
std::string active_mutant;  // of the test that runs
}
bool is_mutant(const char* name) { return active_mutant == name; }
}  // namespace dlaunch

namespace dlaunch::simulation {
namespace {

constexpr std::uint64_t kSeedsMax = 60;

/// One fault at a time, and what must come of it.
Scenario one_fault(PlannedFault fault, std::uint64_t generations_max) {
  Scenario scenario;
  scenario.hosts = scenario.hosts_min = 6;
  scenario.spares = 2;
  scenario.duration = 3min;
  scenario.ending = Ending::stop;
  scenario.planned = {fault};
  scenario.expect.generations_max = generations_max;
  return scenario;
}

Scenario undisturbed() {
  auto scenario = one_fault({60s, Fault::checkpoint_asked, 0, 1s}, 1);
  scenario.single_beats = true;
  return scenario;
}

Scenario crash() { return one_fault({60s, Fault::worker_crash, 1, 1s}, 2); }

Scenario partition() { return one_fault({60s, Fault::partition, 0, 3s}, 1); }

Scenario restarted() {
  auto scenario = one_fault({60s, Fault::controller_kill, 0, 1s}, 1);
  scenario.expect.tunnels_max = 0;  // its agents live and dial: none has to be reached over SSH
  return scenario;
}

Scenario host_gone() {
  auto scenario = one_fault({60s, Fault::host_crash, 1, 2s}, 2);
  scenario.spares = 0;  // the job waits until it is back
  return scenario;
}

Scenario one_way() {
  auto scenario = one_fault({60s, Fault::cut_to_host, 1, 5s}, 3);
  scenario.data_paths = false;  // nobody else can say that the host lives
  scenario.expect.incidents_min = 1;
  return scenario;
}

Scenario stalled() {
  auto scenario = one_fault({60s, Fault::controller_stall, 0, 10s}, 1);
  scenario.hosts = scenario.hosts_min = 2;  // too few for the half-silent rule
  scenario.spares = 0;
  return scenario;
}

Scenario hang() {
  auto scenario = one_fault({60s, Fault::worker_hang, 1, 1s}, 2);
  scenario.hang_floor = 10s;
  return scenario;
}

/// Nobody else misses the only worker: its agent's word is all there is.
Scenario lonely() {
  auto scenario = one_fault({60s, Fault::connection_reset, 0, 1s}, 2);
  scenario.hosts = scenario.hosts_min = 1;
  scenario.spares = 0;
  scenario.planned.push_back({60s + 6ms, Fault::worker_crash, 0, 1s});
  return scenario;
}

/// A worker that does not die for long, while another one's end begins the next generation: its
/// host is left out, and the job does not go in circles with it.
Scenario slow_death() {
  auto scenario = one_fault({60s, Fault::worker_undead, 1, 100s}, 2);
  scenario.training.checkpoint_every = 20;
  scenario.planned.push_back({61s, Fault::worker_crash, 2, 1s});
  scenario.expect.goodput_min = 0.7;
  return scenario;
}

Scenario budget() {
  Scenario scenario;
  scenario.restarts = 3;
  scenario.training.checkpoint_every = 100'000;  // none gives a restart back
  scenario.faults.weights = {{Fault::worker_crash, 1}};
  scenario.faults.every = 30s;
  scenario.duration = 10min;
  return scenario;
}

Scenario swarm(bool program) {
  Scenario scenario;
  scenario.hosts = 12;
  scenario.spares = 3;
  scenario.hosts_min = 8;
  scenario.program = program;
  if (program) scenario.lease = 10s;
  for (std::size_t i = 0; i < kFaults; ++i) scenario.faults.weights[static_cast<Fault>(i)] = 1;
  scenario.faults.swarm = true;
  scenario.faults.every = 30s;
  scenario.training.checkpoint_every = 60;
  scenario.duration = 30min;
  return scenario;
}
Scenario trainers() { return swarm(false); }
Scenario programs() { return swarm(true); }

bool breaks(Scenario (*make)()) {
  const auto scenario = make();
  const bool random = !scenario.faults.weights.empty();
  for (std::uint64_t seed = 1; seed <= (random ? kSeedsMax : 3); ++seed) {
    if (!World(scenario, seed).run().broken.empty()) return true;
  }
  return false;
}

/// An agent alone, and frames of controllers.
class LoneAgent {
 public:
  LoneAgent() {
    supervisor::host::Identity identity;
    identity.job = "job";
    identity.first = true;
    machine_.emplace(identity, Instant{});
    (void)machine_->step(Instant{}, supervisor::host::ConnectionUp{});
  }
  /// True: it starts a worker.
  template <class Fill>
  bool starts(std::uint64_t incarnation, std::uint64_t generation, Fill fill) {
    protocol::ControllerFrame frame;
    frame.set_job("job");
    frame.set_incarnation(incarnation);
    frame.set_generation(generation);
    fill(frame);
    const auto commands = machine_->step(Instant{}, supervisor::host::FromController{frame});
    return std::any_of(commands.begin(), commands.end(), [](const auto& command) {
      return std::holds_alternative<supervisor::host::StartWorker>(command);
    });
  }

 private:
  std::optional<supervisor::host::Agent> machine_;
};

/// An agent that has heard of generation 2 is told to start one of generation 1.
bool starts_an_older_generation() {
  LoneAgent agent;
  (void)agent.starts(1, 1, [](auto& f) { f.mutable_welcome()->mutable_job()->set_trainer(true); });
  (void)agent.starts(1, 2, [](auto& f) { f.mutable_find_mark()->set_mark("x"); });
  return agent.starts(1, 1, [](auto& f) { f.mutable_prepare()->set_workers(1); });
}

/// An agent that has heard of incarnation 2 is told to start a generation by incarnation 1.
bool obeys_an_older_controller() {
  LoneAgent agent;
  (void)agent.starts(2, 1, [](auto& f) { f.mutable_welcome()->mutable_job()->set_trainer(true); });
  return agent.starts(1, 2, [](auto& f) { f.mutable_prepare()->set_workers(1); });
}

/// Two hosts are to prepare generation 2; what one of them says is about generation 1.
bool takes_an_older_answer() {
  namespace job = supervisor::job;
  job::Policy policy;
  policy.job_id = "job";
  policy.trainer = false;
  job::Job machine(policy, {}, Instant{});
  (void)machine.step(Instant{}, job::FromCoordinator{rendezvous::QuorumReached{"all are ready"}});
  rendezvous::Plan plan;
  plan.generation = Generation{2};
  plan.members = {{HostId{0}, Rank{0}, 1, "10.0.0.1"}, {HostId{1}, Rank{1}, 1, "10.0.0.2"}};
  plan.world_size = 2;
  std::uint64_t ticket = 0;
  const job::FromCoordinator formed{rendezvous::Formed{plan, "all are ready"}};
  for (const auto& command : machine.step(Instant{}, formed)) {
    if (const auto* entry = std::get_if<job::Journal>(&command)) ticket = entry->ticket;
  }
  (void)machine.step(Instant{}, job::Journaled{ticket});
  bool assigned = false;
  for (const std::uint32_t host : {0U, 1U}) {
    protocol::AgentFrame frame;
    frame.set_generation(host == 0 ? 2 : 1);
    frame.mutable_prepared();
    for (const auto& command : machine.step(Instant{}, job::FromAgent{HostId{host}, frame})) {
      const auto* send = std::get_if<job::Send>(&command);
      assigned = assigned || (send != nullptr && send->body.has_assign());
    }
  }
  return assigned;
}

struct Check {
  const char* name;
  std::function<bool()> fails;
};
const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"undisturbed", [] { return breaks(undisturbed); }},
      {"crash", [] { return breaks(crash); }},
      {"partition", [] { return breaks(partition); }},
      {"restarted", [] { return breaks(restarted); }},
      {"host_gone", [] { return breaks(host_gone); }},
      {"one_way", [] { return breaks(one_way); }},
      {"stalled", [] { return breaks(stalled); }},
      {"hang", [] { return breaks(hang); }},
      {"lonely", [] { return breaks(lonely); }},
      {"slow_death", [] { return breaks(slow_death); }},
      {"budget", [] { return breaks(budget); }},
      {"trainers", [] { return breaks(trainers); }},
      {"programs", [] { return breaks(programs); }},
      {"older_generation", starts_an_older_generation},
      {"older_controller", obeys_an_older_controller},
      {"older_answer", takes_an_older_answer},
  };
  return all;
}

/// mutant → check, as docs/mutants.md has them.
std::map<std::string, std::string> documented() {
  std::ifstream stream(std::string(DLAUNCH_SOURCE) + "/docs/mutants.md");
  std::map<std::string, std::string> rows;
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> quoted;
    for (std::size_t at = line.find('`'); at != std::string::npos;) {
      const auto end = line.find('`', at + 1);
      if (end == std::string::npos) break;
      quoted.push_back(line.substr(at + 1, end - at - 1));
      at = line.find('`', end + 1);
    }
    if (line.starts_with("| `") && quoted.size() >= 2) rows[quoted.front()] = quoted.back();
  }
  return rows;
}

TEST(Mutants, TheMachinesWithoutAMutantPassEveryCheck) {
  active_mutant.clear();
  for (const auto& check : checks()) EXPECT_FALSE(check.fails()) << check.name;
}

TEST(Mutants, EachIsCaughtByTheCheckThatTheTableNames) {
  const auto rows = documented();
  EXPECT_GE(rows.size(), 15U);
  for (const auto& [mutant, name] : rows) {
    const auto check = std::find_if(checks().begin(), checks().end(),
                                    [&](const Check& known) { return known.name == name; });
    ASSERT_NE(check, checks().end()) << "docs/mutants.md names the check " << name;
    active_mutant = mutant;
    EXPECT_TRUE(check->fails()) << mutant << " is not seen by " << name;
  }
  active_mutant.clear();
}

TEST(Mutants, TheTableNamesThoseThatAreInTheCode) {
  std::set<std::string> in_code;
  for (const std::string file : {MUTATED_SOURCES}) {
    std::ifstream stream(std::string(DLAUNCH_SOURCE) + "/" + file);
    std::stringstream text;
    text << stream.rdbuf();
    const auto source = text.str();
    const std::string mark = "DL_MUTANT(\"";
    for (auto at = source.find(mark); at != std::string::npos; at = source.find(mark, at + 1)) {
      const auto begin = at + mark.size();
      in_code.insert(source.substr(begin, source.find('"', begin) - begin));
    }
  }
  std::set<std::string> in_table;
  for (const auto& [mutant, check] : documented()) in_table.insert(mutant);
  EXPECT_EQ(in_code, in_table);
}

}  // namespace
}  // namespace dlaunch::simulation
