#include "simulation/scenario_file.h"

#include <algorithm>
#include <limits>

#include "base/units.h"
#include "launcher/config/section.h"

namespace dlaunch::simulation {
namespace {

using launcher::config::Reading;
using launcher::config::Section;

constexpr std::int64_t kHostsMax = 65'536;
constexpr std::int64_t kWorkersMax = 64;
constexpr std::int64_t kWeightMax = 1000;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

/// Unlike those of a real job these may be as long as a year.
void read_time(Section& section, std::string_view key, nanoseconds& into) {
  if (!section.has(key)) return;
  std::string text;
  section.text(key, text);
  const auto time = parse_duration(text);
  if (time && *time > 0ns) {
    into = *time;
  } else {
    section.wrong(key, "`" + text + "` is no duration", "\"90 s\", \"10 min\" or \"90 days\"");
  }
}

void read_job(Section section, Scenario& scenario) {
  section.whole("hosts", scenario.hosts, 1, kHostsMax);
  scenario.spares = 0;
  section.whole("spares", scenario.spares, 0, kHostsMax);
  scenario.hosts_min = scenario.hosts;
  section.whole("minimum", scenario.hosts_min, 1, scenario.hosts);
  section.whole("workers", scenario.workers, 1, kWorkersMax);
  section.flag("program", scenario.program);
  section.flag("data_paths", scenario.data_paths);
  section.whole("behind_nat", scenario.behind_nat, 0, scenario.hosts);
  section.finish();
}

void read_training(Section section, TrainingScript& training) {
  section.whole("steps", training.steps, 0, kAny);
  read_time(section, "step_time", training.step_time);
  section.whole("checkpoint_every", training.checkpoint_every, 1, kAny);
  read_time(section, "start_time", training.start_time);
  read_time(section, "restore_time", training.restore_time);
  read_time(section, "write_time", training.write_time);
  section.finish();
}

void read_weights(Section section, FaultMix& faults) {
  for (std::size_t i = 0; i < kFaults; ++i) {
    if (!section.has(kFaultNames[i])) continue;
    std::uint32_t weight = 0;
    section.whole(kFaultNames[i], weight, 0, kWeightMax);
    if (weight > 0) {
      faults.weights[static_cast<Fault>(i)] = weight;
    } else {
      faults.weights.erase(static_cast<Fault>(i));
    }
  }
  section.finish();
}

void read_faults(Section section, FaultMix& faults) {
  bool all = false;
  section.flag("all", all);
  for (std::size_t i = 0; all && i < kFaults; ++i) faults.weights[static_cast<Fault>(i)] = 1;
  section.flag("swarm", faults.swarm);
  read_time(section, "every", faults.every);
  read_time(section, "lasts_max", faults.lasts_max);
  read_weights(section.section("kinds"), faults);
  section.finish();
}

void read_policy(Section section, Scenario& scenario) {
  read_time(section, "lost_after", scenario.lost_after);
  read_time(section, "hang_floor", scenario.hang_floor);
  read_time(section, "lease", scenario.lease);
  read_time(section, "wait_for_host", scenario.wait_for_host);
  section.whole("restarts", scenario.restarts, 0, kAny);
  section.whole("no_progress_generations", scenario.no_progress_generations, 1, kAny);
  section.flag("quarantine", scenario.quarantine);
  section.finish();
}

void read_run(Section section, Scenario& scenario) {
  read_time(section, "duration", scenario.duration);
  read_time(section, "heal_within", scenario.heal_within);
  section.flag("single_beats", scenario.single_beats);
  std::string ending = "by_seed";
  section.choice("ending", ending, {"by_seed", "finish", "stop", "stop_now", "preempt"});
  scenario.ending = ending == "finish"     ? Ending::finish
                    : ending == "stop"     ? Ending::stop
                    : ending == "stop_now" ? Ending::stop_now
                    : ending == "preempt"  ? Ending::preempt
                                           : Ending::by_seed;
  section.finish();
}

void read_expectation(Section section, Expectation& expect) {
  if (const auto* node = section.find("codes"); node != nullptr) {
    expect.codes.clear();
    const auto* codes = node->as_array();
    for (std::size_t i = 0; codes != nullptr && i < codes->size(); ++i) {
      const auto code = codes->get(i)->value<std::int64_t>();
      if (code && *code >= 0 && *code <= 255) expect.codes.insert(static_cast<int>(*code));
    }
    if (expect.codes.empty()) section.wrong("codes", "no exit codes", "codes = [0, 75]");
  }
  std::uint64_t count = 0;
  if (section.has("generations_max")) {
    section.whole("generations_max", count, 1, kAny);
    expect.generations_max = count;
  }
  if (section.has("incidents_min")) {
    section.whole("incidents_min", count, 0, kAny);
    expect.incidents_min = count;
  }
  if (section.has("tunnels_max")) {
    section.whole("tunnels_max", count, 0, kAny);
    expect.tunnels_max = count;
  }
  if (section.has("goodput_min")) {
    double goodput = 0;
    section.real("goodput_min", goodput, 0, 1, "a share between 0 and 1");
    expect.goodput_min = goodput;
  }
  section.finish();
}

void read_planned(Section& root, Reading& reading, Scenario& scenario) {
  const auto* node = root.find("at");
  if (node == nullptr) return;
  const auto* entries = node->as_array();
  if (entries == nullptr || !entries->is_homogeneous<toml::table>()) {
    return root.wrong("at", "`at` is not a list of tables", "[[at]] before each planned fault");
  }
  for (const auto& entry : *entries) {
    Section section(reading, "at", entry.as_table());
    PlannedFault planned;
    std::string fault;
    read_time(section, "time", planned.at);
    section.choice("fault", fault, {kFaultNames.begin(), kFaultNames.end()});
    planned.fault = fault_named(fault).value_or(Fault::worker_crash);
    section.whole("host", planned.host, 0, scenario.hosts + scenario.spares - 1);
    read_time(section, "lasts", planned.lasts);
    section.finish();
    scenario.planned.push_back(planned);
  }
}

}  // namespace

ScenarioOrProblems parse_scenario(std::string_view text, const std::string& file) {
  Reading reading(file);
  const auto document = launcher::config::parse_document(text, kScenarioBytesMax, file, reading);
  if (!document) return reading.take();
  Scenario scenario;
  Section root(reading, "", &*document);
  root.text("name", scenario.name);
  read_job(root.section("job"), scenario);
  read_training(root.section("training"), scenario.training);
  read_faults(root.section("faults"), scenario.faults);
  read_policy(root.section("policy"), scenario);
  read_run(root.section("run"), scenario);
  read_expectation(root.section("expect"), scenario.expect);
  read_planned(root, reading, scenario);
  root.finish();
  if (scenario.training.steps > 0 && scenario.ending == Ending::by_seed) {
    scenario.ending = Ending::finish;
  }
  if (reading.empty()) return scenario;
  return reading.take();
}

}  // namespace dlaunch::simulation
