#include "simulation/report.h"

#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace dlaunch::simulation {
namespace {

using nlohmann::json;

constexpr double kHalf = 0.5, kAlmostAll = 0.99;

std::string number(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

struct Totals {
  std::size_t failed = 0;
  double seconds = 0, goodput = 0;
  std::uint64_t generations = 0, events = 0;
  std::map<std::string, std::uint64_t> incidents, codes;
  std::map<Fault, std::uint64_t> faults;
  std::vector<double> recoveries;
};

Totals sum(const std::vector<Outcome>& outcomes) {
  Totals totals;
  for (const auto& outcome : outcomes) {
    totals.failed += outcome.broken.empty() ? 0 : 1;
    totals.seconds += outcome.simulated_seconds;
    totals.goodput += outcome.goodput / static_cast<double>(outcomes.size());
    totals.generations += outcome.generations;
    totals.events += outcome.events;
    ++totals.codes[outcome.code ? std::to_string(*outcome.code) : "none"];
    for (const auto& [cause, count] : outcome.incidents) totals.incidents[cause] += count;
    for (const auto& [fault, count] : outcome.faults) totals.faults[fault] += count;
    totals.recoveries.insert(totals.recoveries.end(), outcome.recovery_seconds.begin(),
                             outcome.recovery_seconds.end());
  }
  return totals;
}

template <class Names>
std::string list(const Names& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(count);
  }
  return text.empty() ? "none" : text;
}

std::map<std::string, std::uint64_t> by_name(const std::map<Fault, std::uint64_t>& faults) {
  std::map<std::string, std::uint64_t> named;
  for (const auto& [fault, count] : faults) named[name_of(fault)] = count;
  return named;
}

json seed_json(const Outcome& outcome) {
  return {{"seed", outcome.seed},
          {"code", outcome.code ? json(*outcome.code) : json(nullptr)},
          {"sentence", outcome.sentence},
          {"seconds", outcome.simulated_seconds},
          {"generations", outcome.generations},
          {"steps", outcome.steps},
          {"goodput", outcome.goodput},
          {"incidents", outcome.incidents},
          {"faults", by_name(outcome.faults)},
          {"recovery_p50", percentile(outcome.recovery_seconds, kHalf)},
          {"recovery_p99", percentile(outcome.recovery_seconds, kAlmostAll)},
          {"events", outcome.events},
          {"hash", std::to_string(outcome.hash)},
          {"broken", outcome.broken}};
}

}  // namespace

std::string head_of_lines() {
  return "    seed  ok  code  simulated  faults  incidents  generations  goodput  recovery p50/p99 "
         "s"
         "     events\n";
}

std::string line_of(const Outcome& outcome) {
  std::uint64_t incidents = 0;
  for (const auto& [cause, count] : outcome.incidents) incidents += count;
  const auto seconds = std::chrono::seconds(std::llround(outcome.simulated_seconds));
  return padded(std::to_string(outcome.seed), 8) + (outcome.broken.empty() ? "  ok" : "  NO") +
         padded(outcome.code ? std::to_string(*outcome.code) : "none", 6) +
         padded(format_duration(std::chrono::round<std::chrono::minutes>(seconds)), 11) +
         padded(std::to_string(outcome.fault_count()), 8) + padded(std::to_string(incidents), 11) +
         padded(std::to_string(outcome.generations), 13) + padded(number(outcome.goodput, 3), 9) +
         padded(number(percentile(outcome.recovery_seconds, kHalf), 2) + "/" +
                    number(percentile(outcome.recovery_seconds, kAlmostAll), 2),
                20) +
         padded(std::to_string(outcome.events), 11) + "\n";
}

std::string summary_of(const Scenario& scenario, const std::vector<Outcome>& outcomes) {
  const auto totals = sum(outcomes);
  const auto hours = number(totals.seconds / 3600.0, 1);
  return scenario.name + ": " + std::to_string(outcomes.size()) + " seeds, " +
         std::to_string(scenario.hosts) + " hosts and " + std::to_string(scenario.spares) +
         " spares, " + hours + " h simulated\n" + "  exit codes   " + list(totals.codes) + "\n" +
         "  faults       " + list(by_name(totals.faults)) + "\n" + "  incidents    " +
         list(totals.incidents) + "\n" + "  generations  " + std::to_string(totals.generations) +
         "\n" + "  goodput      " + number(totals.goodput, 3) + "\n" + "  recovery     p50 " +
         number(percentile(totals.recoveries, kHalf), 2) + " s, p99 " +
         number(percentile(totals.recoveries, kAlmostAll), 2) + " s\n" + "  safety       " +
         (totals.failed == 0 ? std::string("ok")
                             : std::to_string(totals.failed) + " seeds broke a rule") +
         "\n";
}

std::string failure_of(const Scenario& scenario, const std::string& file, const Outcome& outcome) {
  std::string text = "scenario " + scenario.name + ", seed " + std::to_string(outcome.seed) + ":\n";
  for (const auto& rule : outcome.broken) text += "  " + rule + "\n";
  text += "the newest lines:\n";
  for (const auto& line : outcome.trace) text += line + "\n";
  return text + "to see it again: dlaunch simulate " + file + " --seed " +
         std::to_string(outcome.seed) + " --trace\n";
}

std::string json_of(const Scenario& scenario, const std::vector<Outcome>& outcomes) {
  const auto totals = sum(outcomes);
  json seeds = json::array();
  for (const auto& outcome : outcomes) seeds.push_back(seed_json(outcome));
  const json whole = {{"schema", 1},
                      {"scenario", scenario.name},
                      {"hosts", scenario.hosts},
                      {"spares", scenario.spares},
                      {"seconds", totals.seconds},
                      {"goodput", totals.goodput},
                      {"recovery_p50", percentile(totals.recoveries, kHalf)},
                      {"recovery_p99", percentile(totals.recoveries, kAlmostAll)},
                      {"incidents", totals.incidents},
                      {"faults", by_name(totals.faults)},
                      {"safety_ok", totals.failed == 0},
                      {"seeds", seeds}};
  return whole.dump(2) + "\n";
}

}  // namespace dlaunch::simulation
