#include "simulation/io/simulate_command.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "launcher/config/io/read_file.h"
#include "simulation/report.h"
#include "simulation/scenario_file.h"
#include "simulation/world.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::simulation {
namespace {

constexpr int kWrongFile = supervisor::job::to_int(supervisor::job::ExitCode::wrong_file);

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

}  // namespace

int simulate(const launcher::cli::SimulateOptions& options) {
  const auto text = launcher::config::read_config_file(options.scenario, kScenarioBytesMax);
  if (!text) {
    std::fprintf(stderr, "dlaunch: %s\n", text.error().text().c_str());
    return kWrongFile;
  }
  const auto parsed = parse_scenario(*text, options.scenario);
  if (const auto* problems = std::get_if<std::vector<launcher::config::Problem>>(&parsed)) {
    std::fputs(launcher::config::to_text(*problems).c_str(), stderr);
    return kWrongFile;
  }
  const auto& scenario = std::get<Scenario>(parsed);
  Trace::Sink sink;
  if (options.trace) sink = [](const std::string& line) { print(line + "\n"); };
  std::vector<Outcome> outcomes;
  bool fine = true;
  if (!options.json) print(head_of_lines());
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    auto outcome = World(scenario, options.seed + i, sink).run();
    fine = fine && outcome.broken.empty();
    if (!options.json) {
      print(line_of(outcome));
      if (!outcome.broken.empty()) print(failure_of(scenario, options.scenario, outcome));
      std::fflush(stdout);
    }
    outcomes.push_back(std::move(outcome));
  }
  print(options.json ? json_of(scenario, outcomes) : summary_of(scenario, outcomes));
  return fine ? 0 : 1;
}

}  // namespace dlaunch::simulation
