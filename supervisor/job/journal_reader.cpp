// Reads the journal back, row by row.
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "supervisor/job/journal_rows.h"

namespace dlaunch::supervisor::job {
namespace {

using nlohmann::json;

constexpr std::size_t kStepsKept = 1000;  // a directory holds `keep` of them; the newest count
// A generation has a few; what is older than the quarantines of so many is forgotten.
constexpr std::size_t kBlamesKept = 10'000;

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
nanoseconds duration(const json& content, const char* key) {
  const auto found = content.find(key);
  return nanoseconds(
      found != content.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0);
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

std::optional<HostId> host_of(const json& content) {
  const auto id = number(content, "id");
  return id ? std::optional(HostId{static_cast<std::uint32_t>(*id)}) : std::nullopt;
}

Counted counted_of(const json& content) {
  Counted counted;
  counted.began = instant(content, "began");
  counted.incidents_before = number(content, "incidents_before").value_or(0);
  for (const auto& at : content.value("restarts", json::array())) {
    if (at.is_number_integer()) counted.restarts.emplace_back(nanoseconds(at.get<std::int64_t>()));
  }
  counted.without_progress = small(content, "without_progress");
  counted.free_retries = small(content, "free_retries");
  for (const auto& crash : content.value("crashes", json::array())) {
    const bool whole = crash.is_array() && crash.size() == 2 && crash[0].is_number_integer() &&
                       crash[1].is_number_unsigned();
    if (!whole) continue;
    counted.crashes.emplace_back(Instant{nanoseconds(crash[0].get<std::int64_t>())},
                                 HostId{crash[1].get<std::uint32_t>()});
  }
  if (const auto end = content.find("last_end"); end != content.end() && end->is_object()) {
    ProgramEnd last;
    last.code = signed_small(*end, "code");
    last.signal = signed_small(*end, "signal");
    last.last_line = text(*end, "last_line");
    last.lived = duration(*end, "lived");
    if (const auto step = number(*end, "step")) last.step = Step{*step};
    counted.last_end = std::move(last);
  }
  if (const auto known = content.find("fingerprints");
      known != content.end() && known->is_array()) {
    auto& fingerprints = counted.fingerprints.emplace();
    for (const auto& one : *known) {
      if (one.is_string()) fingerprints.insert(one.get<std::string>());
    }
  }
  return counted;
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
    if (kind == "running") return running(content);
    if (kind == "progressed") recovered_.advanced = recovered_.progressed = true;
    if (kind == "committing") return committing(content);
    if (kind == "committed") return committed(content);
    if (kind == "broken") return broken(content);
    if (kind == "incident") recovered_.incident = incident_of(content);
    if (kind == "waiting") recovered_.wait_until = instant(content, "until");
    if (const auto host = host_of(content)) of_host(kind, *host, content);
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
    recovered_.counted = counted_of(content.value("counted", content));
    recovered_.restoring.reset();
    committing_.clear();
    recovered_.went.reset();
    recovered_.master_port = 0;
    recovered_.committed_at.reset();
    recovered_.advanced = recovered_.progressed = false;
    recovered_.wait_until.reset();
    recovered_.unsure.clear();
    passed_over();
  }
  void restoring(const json& content) {
    recovered_.inspected = true;
    Recovered::Restoring restoring;
    if (const auto step = number(content, "step")) restoring.step = Step{*step};
    if (const auto batches = number(content, "logical_batches")) {
      restoring.logical_batches = static_cast<std::uint32_t>(*batches);
      recovered_.logical_batches = restoring.logical_batches;
    }
    recovered_.restoring = restoring;
    steps_.clear();
    for (const auto step : numbers(content, "steps")) steps_.insert(Step{step});
    recovered_.damaged_steps.clear();
    for (const auto step : numbers(content, "damaged")) {
      recovered_.damaged_steps.push_back(Step{step});
    }
  }
  void running(const json& content) {
    recovered_.went = instant(content, "at").value_or(Instant{});
    recovered_.master_port = small(content, "master_port");
  }
  void broken(const json& content) {
    recovered_.broken = Recovered::Broken{text(content, "reason"), flag(content, "planned")};
    recovered_.advanced = recovered_.advanced || flag(content, "advanced");
    const auto open = content.find("incident");
    if (open != content.end() && open->is_object()) recovered_.incident = incident_of(*open);
  }
  void of_host(const std::string& kind, HostId host, const json& content) {
    if (kind == "drained") recovered_.drained.insert(host);
    if (kind == "added") recovered_.drained.erase(host);
    if (const auto until = instant(content, "until"); until && kind == "unsure") {
      recovered_.unsure[host] = *until;
    }
    if (kind == "over_ssh") {
      recovered_.over_ssh.erase(host);
      if (flag(content, "over")) recovered_.over_ssh.insert(host);
    }
    if (const auto at = instant(content, "at"); at && kind == "blamed") {
      recovered_.blames.push_back({host, Generation{number(content, "generation").value_or(0)}, *at,
                                   flag(content, "beyond_doubt"), text(content, "reason")});
      if (recovered_.blames.size() > kBlamesKept) {
        recovered_.blames.erase(recovered_.blames.begin());
      }
    }
    if (kind != "link") return;
    std::erase_if(recovered_.broken_links,
                  [host](const BrokenLink& link) { return link.host == host; });
    if (const auto since = instant(content, "since"); since && !flag(content, "up")) {
      recovered_.broken_links.push_back(
          {host, text(content, "link"), *since, text(content, "sentence")});
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
    auto& restarts = recovered_.counted.restarts;
    if (!restarts.empty()) restarts.erase(restarts.begin());  // as RestartBudget::give_back
    recovered_.committed_at = instant(content, "at");
    recovered_.save_cost = duration(content, "cost");
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
    recovered_.blames.clear();
    recovered_.broken_links.clear();
    recovered_.over_ssh.clear();
    recovered_.wait_until.reset();
    recovered_.unsure.clear();
    auto fingerprints = std::move(recovered_.counted.fingerprints);
    recovered_.counted = {};
    recovered_.counted.fingerprints = std::move(fingerprints);
  }

  Recovered recovered_;
  std::set<Step> steps_;
  std::map<Step, protocol::Commit> committing_;
};

/// Rows of which nothing is left once a newer generation has been told to start from somewhere: it
/// names its members, its budgets, the highest step and what the directory holds.
bool is_told_anew(const std::string& kind) {
  constexpr std::array kKinds = {"generation", "restoring", "running", "progressed", "committing"};
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
