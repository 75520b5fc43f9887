#include "supervisor/job/journal_rows.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "protocol/json_text.h"

namespace dlaunch::supervisor::job {
namespace {

using nlohmann::json;

constexpr std::size_t kStepsKept = 1000;  // a directory holds `keep` of them; the newest count

// ---- writing

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

// ---- reading

std::optional<std::uint64_t> number(const json& content, const char* key) {
  const auto found = content.find(key);
  if (found == content.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}
std::uint32_t small(const json& content, const char* key) {
  return static_cast<std::uint32_t>(number(content, key).value_or(0));
}
int signed_small(const json& content, const char* key) {
  const auto found = content.find(key);
  return found != content.end() && found->is_number_integer() ? found->get<int>() : 0;
}
std::string text(const json& content, const char* key) {
  const auto found = content.find(key);
  return found != content.end() && found->is_string() ? found->get<std::string>() : "";
}
bool flag(const json& content, const char* key) {
  const auto found = content.find(key);
  return found != content.end() && found->is_boolean() && found->get<bool>();
}
std::vector<std::uint64_t> numbers(const json& content, const char* key) {
  std::vector<std::uint64_t> values;
  const auto found = content.find(key);
  if (found == content.end() || !found->is_array()) return values;
  for (const auto& value : *found) {
    if (value.is_number_unsigned()) values.push_back(value.get<std::uint64_t>());
  }
  return values;
}
std::optional<Instant> instant(const json& content, const char* key) {
  const auto found = content.find(key);
  if (found == content.end() || !found->is_number_integer()) return std::nullopt;
  return Instant{nanoseconds(found->get<std::int64_t>())};
}

std::optional<rendezvous::Plan> plan_of(const json& content, Generation generation) {
  const auto members = content.find("members");
  if (members == content.end() || !members->is_array() || members->empty()) return std::nullopt;
  rendezvous::Plan plan;
  plan.generation = generation;
  for (const auto& member : *members) {
    if (!member.is_object() || !number(member, "id")) return std::nullopt;
    plan.members.push_back({HostId{small(member, "id")}, Rank{small(member, "first_rank")},
                            small(member, "workers"), text(member, "data_address")});
    plan.world_size += plan.members.back().workers;
  }
  for (const auto seat : numbers(content, "seats")) {
    plan.seats.push_back(HostId{static_cast<std::uint32_t>(seat)});
  }
  return plan;
}

std::optional<OpenIncident> incident_of(const json& content) {
  const auto id = number(content, "id");
  const auto happened = instant(content, "happened");
  const auto opened = instant(content, "opened");
  if (!id || !happened || !opened || flag(content, "closed")) return std::nullopt;
  OpenIncident open;
  open.incident.id = *id;
  open.incident.generation = Generation{number(content, "broke").value_or(0)};
  open.incident.verdict = text(content, "verdict");
  open.incident.lost_steps = number(content, "lost_steps").value_or(0);
  open.incident.exact = flag(content, "exact");
  open.done = text(content, "done");
  auto& cause = open.cause;
  cause.cause = text(content, "cause");
  cause.weight = static_cast<Weight>(
      std::min(small(content, "weight"), static_cast<std::uint32_t>(Weight::host_fact)));
  if (const auto host = number(content, "host")) {
    cause.host = HostId{static_cast<std::uint32_t>(*host)};
  }
  if (const auto rank = number(content, "rank")) {
    cause.rank = Rank{static_cast<std::uint32_t>(*rank)};
  }
  cause.what = text(content, "what");
  for (const auto& line : content.value("last_lines", json::array())) {
    if (line.is_string()) cause.last_lines.push_back(line.get<std::string>());
  }
  cause.code = signed_small(content, "code");
  cause.signal = signed_small(content, "signal");
  cause.happened_at = open.happened = *happened;
  open.opened = *opened;
  open.aborted = instant(content, "aborted");
  open.replaced = instant(content, "replaced");
  open.regrouped = instant(content, "regrouped");
  open.restored = instant(content, "restored");
  return open;
}

/// Takes one row after the other.
class Reader {
 public:
  explicit Reader(std::uint64_t incidents) { recovered_.incidents = incidents; }

  void take(const std::string& kind, const json& content) {
    if (const auto best = number(content, "best_step"); best && *best > 0) {
      recovered_.best_step = std::max(recovered_.best_step.value_or(Step{}), Step{*best});
    }
    if (kind == "generation") return generation(content);
    if (kind == "restoring") return restoring(content);
    if (kind == "running") recovered_.ran = true;
    if (kind == "progressed") recovered_.progressed = true;
    if (kind == "committing") return committing(content);
    if (kind == "committed") return committed(content);
    if (kind == "broken") {
      recovered_.broken = Recovered::Broken{text(content, "reason"), flag(content, "planned")};
      const auto open = content.find("incident");
      if (open != content.end() && open->is_object()) recovered_.incident = incident_of(*open);
    }
    if (kind == "incident") recovered_.incident = incident_of(content);
    if (const auto id = number(content, "id"); id && kind == "drained") {
      recovered_.drained.insert(HostId{static_cast<std::uint32_t>(*id)});
    }
    if (const auto id = number(content, "id"); id && kind == "added") {
      recovered_.drained.erase(HostId{static_cast<std::uint32_t>(*id)});
    }
    if (kind == "stopping") {
      recovered_.stopping =
          Recovered::Stopping{text(content, "reason"), flag(content, "preempted")};
    }
    if (kind == "ended") {
      recovered_.ended = Recovered::Ended{signed_small(content, "code"), text(content, "state"),
                                          text(content, "sentence")};
    }
    if (kind == "resumed") return resumed();
  }

  /// A generation of which nothing else is asked.
  void passed_over() {
    recovered_.broken.reset();
    if (recovered_.ended) recovered_.stopping.reset();  // it was resumed
    recovered_.ended.reset();
  }

  Recovered done() {
    std::copy(steps_.begin(), steps_.end(), std::back_inserter(recovered_.disk_steps));
    for (auto& [step, commit] : committing_) recovered_.committing.push_back(std::move(commit));
    return std::move(recovered_);
  }

 private:
  void generation(const json& content) {
    const Generation generation{number(content, "generation").value_or(0)};
    if (generation < recovered_.last_generation) return;
    recovered_.last_generation = generation;
    recovered_.plan = plan_of(content, generation);
    recovered_.restarts_spent = small(content, "restarts_spent");
    recovered_.without_progress = small(content, "without_progress");
    recovered_.free_retries = small(content, "free_retries");
    recovered_.restoring.reset();
    committing_.clear();
    recovered_.ran = recovered_.progressed = false;
    passed_over();
  }
  void restoring(const json& content) {
    recovered_.inspected = true;
    Recovered::Restoring restoring;
    if (const auto step = number(content, "step")) restoring.step = Step{*step};
    if (const auto batches = number(content, "logical_batches")) {
      restoring.logical_batches = static_cast<std::uint32_t>(*batches);
    }
    recovered_.restoring = restoring;
    steps_.clear();
    for (const auto step : numbers(content, "steps")) steps_.insert(Step{step});
    recovered_.damaged_steps.clear();
    for (const auto step : numbers(content, "damaged")) {
      recovered_.damaged_steps.push_back(Step{step});
    }
  }
  void committing(const json& content) {
    const auto step = number(content, "step");
    if (!step) return;
    auto& commit = committing_[Step{*step}];
    commit.set_step(*step);
    commit.set_replaces_damaged(flag(content, "replaces_damaged"));
    for (const auto& file : content.value("files", json::array())) {
      if (!file.is_object()) continue;
      auto& known = *commit.add_files();
      known.set_name(text(file, "name"));
      known.set_bytes(number(file, "bytes").value_or(0));
      known.set_hash(text(file, "hash"));
    }
    for (const auto old : numbers(content, "delete")) commit.add_delete_steps(old);
  }
  void committed(const json& content) {
    const auto step = number(content, "step");
    if (!step) return;
    recovered_.inspected = true;
    steps_.insert(Step{*step});
    if (recovered_.restarts_spent > 0) --recovered_.restarts_spent;  // as RestartBudget::give_back
    if (const auto known = committing_.find(Step{*step}); known != committing_.end()) {
      for (const auto old : known->second.delete_steps()) steps_.erase(Step{old});
      committing_.erase(known);
    }
    while (steps_.size() > kStepsKept) steps_.erase(steps_.begin());
    std::erase(recovered_.damaged_steps, Step{*step});
  }
  /// By a person's wish: what was counted counts no more, and nothing of it runs.
  void resumed() {
    recovered_.ended.reset();
    recovered_.stopping.reset();
    recovered_.plan.reset();
    recovered_.broken.reset();
    recovered_.incident.reset();
    recovered_.drained.clear();
    recovered_.restarts_spent = recovered_.without_progress = recovered_.free_retries = 0;
  }

  Recovered recovered_;
  std::set<Step> steps_;
  std::map<Step, protocol::Commit> committing_;
};

/// Rows of which nothing is left once a newer generation has been told to start from somewhere: it
/// names its members, its budgets, the highest step and what the directory holds.
bool is_told_anew(const std::string& kind) {
  constexpr std::array kKinds = {"generation", "restoring",  "running",
                                 "progressed", "committing", "committed"};
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

/// The newest generation whose restore point is known. With thousands of hosts the rows of those
/// before it are most of what a long run has written.
std::size_t newest_told_anew(std::span<const JournalEntry> journal) {
  bool restoring = false;
  for (auto i = journal.size(); i > 0; --i) {
    restoring = restoring || journal[i - 1].kind == "restoring";
    if (restoring && journal[i - 1].kind == "generation") return i - 1;
  }
  return 0;
}

}  // namespace

std::string generation_row(const rendezvous::Plan& plan, const Counted& counted,
                           const NameOf& name) {
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
                              {"restarts_spent", counted.restarts_spent},
                              {"without_progress", counted.without_progress},
                              {"free_retries", counted.free_retries},
                              {"best_step", counted.best_step.value_or(Step{}).value}});
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

std::string incident_row(const OpenIncident& open) { return protocol::json_text(open_json(open)); }

std::string closed_incident_row(std::uint64_t id) {
  return protocol::json_text({{"id", id}, {"closed", true}});
}

std::string broken_row(Generation generation, const std::string& reason, const OpenIncident* open) {
  return protocol::json_text({{"generation", generation.value},
                              {"reason", reason},
                              {"planned", open == nullptr},
                              {"incident", open == nullptr ? json(nullptr) : open_json(*open)}});
}

Recovered recover(std::span<const JournalEntry> journal, std::uint64_t incidents) {
  Reader reader(incidents);
  const auto told_anew = newest_told_anew(journal);
  for (std::size_t i = 0; i < journal.size(); ++i) {
    if (i < told_anew && is_told_anew(journal[i].kind)) {
      if (journal[i].kind == "generation") reader.passed_over();
      continue;
    }
    const auto content = json::parse(journal[i].json, nullptr, false);
    if (content.is_object()) reader.take(journal[i].kind, content);
  }
  return reader.done();
}

}  // namespace dlaunch::supervisor::job
