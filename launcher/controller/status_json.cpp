#include "launcher/controller/status_json.h"

#include <nlohmann/json.hpp>
#include <set>

namespace dlaunch::launcher::controller {
namespace {

using nlohmann::json;

std::string name_of(const JobIdentity& job, HostId host) {
  const auto found = job.host_names.find(host);
  return found == job.host_names.end() ? std::to_string(host.value) : found->second;
}

template <class Id>
json number_or_null(const std::optional<Id>& id) {
  return id ? json(id->value) : json(nullptr);
}

template <class Number>
json known_or_null(Number number) {
  return number == 0 ? json(nullptr) : json(number);
}
template <class Number>
json value_or_null(const std::optional<Number>& number) {
  return number ? json(*number) : json(nullptr);
}

using RanksOfHosts = std::map<HostId, json>;

RanksOfHosts ranks_of_hosts(const supervisor::job::View& view) {
  RanksOfHosts ranks;
  for (const auto& rank : view.ranks) ranks[rank.host].push_back(rank.rank.value);
  return ranks;
}

json ranks_of(const RanksOfHosts& ranks, HostId host) {
  const auto found = ranks.find(host);
  return found == ranks.end() ? json::array() : found->second;
}

json host_json(const Controller::HostView& host, json ranks, Instant now) {
  json shown = {{"name", host.name},           {"state", rendezvous::to_string(host.state)},
                {"ranks", std::move(ranks)},   {"last_heartbeat_seconds", nullptr},
                {"reason", host.reason},       {"blind_sensors", host.blind_sensors},
                {"connected", host.connected}, {"agent_pid", nullptr},
                {"scratch", host.scratch},     {"heartbeats", host.heartbeats},
                {"over_ssh", host.over_ssh}};
  if (host.last_heard) shown["last_heartbeat_seconds"] = to_seconds(now - *host.last_heard);
  if (host.agent_pid != 0) shown["agent_pid"] = host.agent_pid;
  return shown;
}

/// A worker that is gone has no process and is in no phase, whatever it last said.
json rank_json(const JobIdentity& job, const supervisor::job::RankView& rank) {
  const bool gone = rank.state == "absent" || rank.state == "exited";
  return {{"rank", rank.rank.value},
          {"host", name_of(job, rank.host)},
          {"group", "main"},
          {"pid", gone || rank.pid == 0 ? json(nullptr) : json(rank.pid)},
          {"state", rank.state},
          {"step", number_or_null(rank.step)},
          {"phase", gone ? "" : rank.phase},
          {"waiting_seconds", rank.waiting_seconds},
          {"memory_bytes", known_or_null(rank.memory_bytes)},
          {"memory_peak_bytes", known_or_null(rank.memory_peak_bytes)}};
}

}  // namespace

json figures_json(const supervisor::job::Figures& figures) {
  return {{"gradient_norm", value_or_null(figures.gradient_norm)},
          {"validation_loss", value_or_null(figures.validation_loss)},
          {"validation_step", number_or_null(figures.validation_step)},
          {"step_seconds_p50", known_or_null(figures.step_seconds_p50)},
          {"step_seconds_p95", known_or_null(figures.step_seconds_p95)},
          {"waiting_seconds", figures.waiting_seconds},
          {"bus_bytes_per_second", known_or_null(figures.bus_bytes_per_second)},
          {"bytes_sent", figures.bytes_sent},
          {"flops_per_second", known_or_null(figures.flops_per_second)},
          {"gemm_utilization", value_or_null(figures.gemm_utilization)},
          {"peak_utilization", value_or_null(figures.peak_utilization)},
          {"memory_bytes", known_or_null(figures.memory_bytes)},
          {"memory_peak_bytes", known_or_null(figures.memory_peak_bytes)},
          {"memory_imbalance", figures.memory_imbalance}};
}

json incident_json(const JobIdentity& job, const supervisor::job::Incident& incident) {
  const auto& seconds = incident.seconds;
  return {{"id", incident.id},
          {"cause", incident.cause},
          {"host", incident.host ? json(name_of(job, *incident.host)) : json(nullptr)},
          {"rank", number_or_null(incident.rank)},
          {"verdict", incident.verdict},
          {"generation", incident.generation.value},
          {"sentence", incident.sentence},
          {"last_lines", incident.last_lines},
          {"lost_steps", incident.lost_steps},
          {"exact", incident.exact},
          {"closed", incident.closed},
          {"seconds",
           {{"detect", seconds.detect},
            {"abort", seconds.abort},
            {"replace", seconds.replace},
            {"regroup", seconds.regroup},
            {"restore", seconds.restore},
            {"first_step", seconds.first_step},
            {"total", seconds.total}}}};
}

json status_json(const JobIdentity& job, const std::vector<Controller::HostView>& hosts,
                 const supervisor::job::View& view, Instant now) {
  json host_list = json::array();
  const auto ranks = ranks_of_hosts(view);
  for (const auto& host : hosts) {
    host_list.push_back(host_json(host, ranks_of(ranks, host.host), now));
  }
  json rank_list = json::array();
  for (const auto& rank : view.ranks) rank_list.push_back(rank_json(job, rank));
  json incident_list = json::array();
  const auto first = view.incidents.empty() ? 0 : view.incidents.front().id;
  for (const auto& earlier : job.earlier_incidents) {
    // One that was open when the controller died is this one's too, and goes on there.
    if (first == 0 || earlier.value("id", std::uint64_t{0}) < first) {
      incident_list.push_back(earlier);
    }
  }
  for (const auto& incident : view.incidents) incident_list.push_back(incident_json(job, incident));
  return {{"schema", 1},
          {"job", job.name},
          {"id", job.id},
          {"state", supervisor::job::to_string(view.state)},
          {"reason", view.reason},
          {"generation", view.generation.value},
          {"world_size", view.world_size},
          {"step", number_or_null(view.step)},
          {"steps", job.steps == 0 ? json(nullptr) : json(job.steps)},
          {"loss", view.loss ? json(*view.loss) : json(nullptr)},
          {"tokens_per_second", view.tokens_per_second},
          {"step_seconds", view.step_seconds},
          {"figures", figures_json(view.figures)},
          {"checkpoint",
           {{"disk_step", number_or_null(view.disk_step)},
            {"memory_step", nullptr},
            {"every", view.checkpoint_every}}},
          {"hosts", std::move(host_list)},
          {"ranks", std::move(rank_list)},
          {"incidents", std::move(incident_list)},
          {"controller", {{"host", job.controller_host}, {"pid", job.controller_pid}}}};
}

json summary_json(const JobIdentity& job, const std::vector<Controller::HostView>& hosts,
                  const supervisor::job::View& view) {
  const auto ranks = ranks_of_hosts(view);
  json host_list = json::array();
  for (const auto& host : hosts) {
    auto own = ranks_of(ranks, host.host);
    if (!own.empty()) host_list.push_back({{"name", host.name}, {"ranks", std::move(own)}});
  }
  return {{"type", "state"},
          {"state", supervisor::job::to_string(view.state)},
          {"reason", view.reason},
          {"job", job.name},
          {"id", job.id},
          {"generation", view.generation.value},
          {"world_size", view.world_size},
          {"hosts", std::move(host_list)}};
}

json event_json(const EventRow& event) {
  json line = {{"id", event.id},
               {"time", event.time},
               {"mono_ns", event.mono_ns},
               {"event", event.event},
               {"generation", event.generation}};
  if (event.host) line["host"] = *event.host;
  if (event.rank) line["rank"] = *event.rank;
  if (event.step) line["step"] = *event.step;
  if (!event.detail.empty()) line["detail"] = event.detail;
  return line;
}

json output_json(const OutputChunk& chunk) {
  return {{"type", "output"},
          {"rank", chunk.rank.value},
          {"host", chunk.host_name},
          {"generation", chunk.generation.value},
          {"error", chunk.error_stream},
          {"text", chunk.text}};
}

}  // namespace dlaunch::launcher::controller
