#include "supervisor/job/journal_rows.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "protocol/json_text.h"

namespace dlaunch::supervisor::job {
namespace {

using nlohmann::json;

json steps_json(const std::vector<Step>& steps) {
  json list = json::array();
  for (const auto step : steps) list.push_back(step.value);
  return list;
}

json instant_json(std::optional<Instant> instant) {
  return instant ? json(instant->time_since_epoch().count()) : json(nullptr);
}

json open_json(const OpenIncident& open) {
  const auto& cause = open.cause;
  const auto& shown = open.incident;
  return {{"id", shown.id},
          {"broke", shown.generation.value},
          {"verdict", shown.verdict},
          {"lost_steps", shown.lost_steps},
          {"exact", shown.exact},
          {"done", open.done},
          {"cause", cause.cause},
          {"weight", static_cast<unsigned>(cause.weight)},
          {"host", cause.host ? json(cause.host->value) : json(nullptr)},
          {"rank", cause.rank ? json(cause.rank->value) : json(nullptr)},
          {"what", cause.what},
          {"last_lines", cause.last_lines},
          {"code", cause.code},
          {"signal", cause.signal},
          {"happened", instant_json(open.happened)},
          {"opened", instant_json(open.opened)},
          {"aborted", instant_json(open.aborted)},
          {"replaced", instant_json(open.replaced)},
          {"regrouped", instant_json(open.regrouped)},
          {"restored", instant_json(open.restored)}};
}

json counted_json(const Counted& counted) {
  json restarts = json::array(), crashes = json::array();
  for (const auto at : counted.restarts) restarts.push_back(instant_json(at));
  for (const auto& [at, host] : counted.crashes) crashes.push_back({instant_json(at), host.value});
  json row = {
      {"began", instant_json(counted.began)}, {"incidents_before", counted.incidents_before},
      {"restarts", std::move(restarts)},      {"without_progress", counted.without_progress},
      {"free_retries", counted.free_retries}, {"crashes", std::move(crashes)}};
  if (const auto& end = counted.last_end) {
    row["last_end"] = {{"code", end->code},
                       {"signal", end->signal},
                       {"last_line", end->last_line},
                       {"lived", end->lived.count()},
                       {"step", end->step ? json(end->step->value) : json(nullptr)}};
  }
  if (counted.fingerprints) row["fingerprints"] = *counted.fingerprints;
  return row;
}

}  // namespace

std::string generation_row(const rendezvous::Plan& plan, const Counted& counted,
                           std::optional<Step> best_step, const NameOf& name) {
  json members = json::array();
  for (const auto& member : plan.members) {
    members.push_back({{"host", name(member.host)},
                       {"id", member.host.value},
                       {"first_rank", member.first_rank.value},
                       {"workers", member.workers},
                       {"data_address", member.data_address}});
  }
  json seats = json::array();
  for (const auto seat : plan.seats) seats.push_back(seat.value);
  return protocol::json_text({{"generation", plan.generation.value},
                              {"members", std::move(members)},
                              {"seats", std::move(seats)},
                              {"counted", counted_json(counted)},
                              {"best_step", best_step.value_or(Step{}).value}});
}

std::string restoring_row(Generation generation, const Recovered::Restoring& restoring,
                          const std::vector<Step>& steps, const std::vector<Step>& damaged) {
  const auto& [step, batches] = restoring;
  return protocol::json_text({{"generation", generation.value},
                              {"step", step ? json(step->value) : json(nullptr)},
                              {"logical_batches", batches ? json(*batches) : json(nullptr)},
                              {"steps", steps_json(steps)},
                              {"damaged", steps_json(damaged)}});
}

std::string running_row(Generation generation, Instant now, std::uint32_t master_port) {
  return protocol::json_text(
      {{"generation", generation.value}, {"at", instant_json(now)}, {"master_port", master_port}});
}

std::string committing_row(Generation generation, const protocol::Commit& commit) {
  json files = json::array();
  for (const auto& file : commit.files()) {
    files.push_back({{"name", file.name()}, {"bytes", file.bytes()}, {"hash", file.hash()}});
  }
  json deleted = json::array();
  for (const auto step : commit.delete_steps()) deleted.push_back(step);
  return protocol::json_text({{"step", commit.step()},
                              {"generation", generation.value},
                              {"files", std::move(files)},
                              {"replaces_damaged", commit.replaces_damaged()},
                              {"delete", std::move(deleted)}});
}

std::string committed_row(Step step, Step best_step, Instant now, nanoseconds save_cost) {
  return protocol::json_text({{"step", step.value},
                              {"best_step", best_step.value},
                              {"at", instant_json(now)},
                              {"cost", save_cost.count()}});
}

std::string incident_row(const OpenIncident& open) { return protocol::json_text(open_json(open)); }

std::string closed_incident_row(std::uint64_t id) {
  return protocol::json_text({{"id", id}, {"closed", true}});
}

std::string broken_row(Generation generation, const std::string& reason, const OpenIncident* open,
                       bool advanced) {
  return protocol::json_text({{"generation", generation.value},
                              {"reason", reason},
                              {"planned", open == nullptr},
                              {"advanced", advanced},
                              {"incident", open == nullptr ? json(nullptr) : open_json(*open)}});
}

std::string blamed_row(const Blame& blame, const NameOf& name) {
  return protocol::json_text({{"generation", blame.generation.value},
                              {"host", name(blame.host)},
                              {"id", blame.host.value},
                              {"at", instant_json(blame.at)},
                              {"beyond_doubt", blame.beyond_doubt},
                              {"reason", blame.reason}});
}

std::string link_row(HostId host, const BrokenLink* broken, const NameOf& name) {
  json row = {{"host", name(host)}, {"id", host.value}, {"up", broken == nullptr}};
  if (broken != nullptr) {
    row["link"] = broken->link;
    row["since"] = instant_json(broken->since);
    row["sentence"] = broken->sentence;
  }
  return protocol::json_text(row);
}

std::string until_row(std::optional<HostId> host, Instant until) {
  json row = {{"until", instant_json(until)}};
  if (host) row["id"] = host->value;
  return protocol::json_text(row);
}

}  // namespace dlaunch::supervisor::job
