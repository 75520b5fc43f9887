#include "tests/supervisor/job/conversation.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "base/units.h"
#include "tests/supervisor/job/script_text.h"

namespace dlaunch::supervisor::job {
namespace {

nanoseconds duration(const std::string& text) {
  const auto parsed = parse_duration(text);
  if (!parsed) throw std::invalid_argument("'" + text + "' is no duration");
  return *parsed;
}

std::uint64_t integer(const std::string& text) {
  std::size_t used = 0;
  const auto value = std::stoull(text, &used);
  if (used != text.size()) throw std::invalid_argument("'" + text + "' is no number");
  return value;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

}  // namespace

// ---- words

std::string Conversation::Words::next() {
  if (plain.empty()) throw std::invalid_argument("a word is missing");
  auto word = plain.front();
  plain.pop_front();
  return word;
}
std::string Conversation::Words::get(const std::string& key, const std::string& otherwise) const {
  const auto found = named.find(key);
  return found == named.end() ? otherwise : found->second;
}
std::uint64_t Conversation::Words::number(const std::string& key, std::uint64_t otherwise) const {
  const auto found = named.find(key);
  return found == named.end() ? otherwise : integer(found->second);
}
std::string Conversation::Words::rest() const {
  std::string text;
  for (const auto& word : plain) text += (text.empty() ? "" : " ") + word;
  return text;
}

Conversation::Words Conversation::parse(const std::vector<std::string>& words) {
  static const std::set<std::string> kFlags = {
      "joins",  "oom",      "finished", "ordered", "entered", "now",       "preempted",
      "by_key", "by_files", "program",  "fresh",   "aborted", "stop_told", "dead"};
  Words parsed;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const bool is_text = words[i].find_first_of(" {") < equals;
    if (equals != std::string::npos && !is_text) {
      parsed.named[words[i].substr(0, equals)] = words[i].substr(equals + 1);
    } else if (kFlags.contains(words[i])) {
      parsed.flags.insert(words[i]);
    } else {
      parsed.plain.push_back(words[i]);
    }
  }
  return parsed;
}

// ---- the frame around a verb

Conversation::Conversation() = default;

const std::map<std::string, Conversation::Verb>& Conversation::verbs() {
  using C = Conversation;
  static const std::map<std::string, Verb> kVerbs = {
      {"job", &C::job},
      {"restart", &C::restart},
      {"hello", &C::hello},
      {"nobody", &C::nobody},
      {"wait", &C::wait},
      {"quorum", &C::quorum},
      {"impossible", &C::impossible},
      {"cannot_form", &C::cannot_form},
      {"formed", &C::formed},
      {"lost", &C::lost},
      {"gone", &C::gone},
      {"returned", &C::returned},
      {"journal", &C::journal},
      {"journaled", &C::journaled},
      {"found", &C::found},
      {"data", &C::data},
      {"looked", &C::looked},
      {"fingerprint", &C::fingerprint},
      {"prepared", &C::prepared},
      {"connected", &C::connected},
      {"restored", &C::restored},
      {"run", &C::run},
      {"progress", &C::progress},
      {"exited", &C::exited},
      {"failing", &C::failing},
      {"finding", &C::finding},
      {"link", &C::link},
      {"path", &C::path},
      {"written", &C::written},
      {"committed", &C::committed},
      {"acknowledged", &C::acknowledged},
      {"cleaned", &C::cleaned},
      {"leave", &C::leave},
      {"stop", &C::stop},
      {"checkpoint", &C::checkpoint},
      {"regroup", &C::regroup},
      {"view", &C::view},
  };
  return kVerbs;
}

std::vector<std::string> Conversation::perform(const std::string& line) {
  const auto words = words_of(line);
  const auto verb = verbs().find(words.at(0));
  if (verb == verbs().end()) throw std::invalid_argument("'" + words[0] + "' is no verb");
  if (!job_ && words[0] != "job") throw std::invalid_argument("the first verb is `job`");
  out_.clear();
  auto parsed = parse(words);
  (this->*verb->second)(parsed);
  return std::exchange(out_, {});
}

void Conversation::feed(const Event& event) {
  for (const auto& command : job_->step(now_, event)) {
    out_.push_back(say(command, policy_.host_names));
    if (const auto* change = std::get_if<IncidentChanged>(&command)) {
      incidents_ = std::max(incidents_, change->incident.id);
    }
    if (const auto* entry = std::get_if<Journal>(&command)) {
      tickets_.push_back(entry->ticket);
      if (journal_mode_ == "on") rows_.push_back({entry->kind, entry->json});
    }
  }
  if (journal_mode_ == "off" || tickets_.empty()) return;
  if (journal_mode_ == "fails") {
    tickets_.clear();
    return feed(JournalFailed{"no space left on device"});
  }
  const auto ticket = tickets_.front();
  tickets_.pop_front();
  feed(Journaled{ticket});
}

void Conversation::from(HostId id, protocol::AgentFrame frame,
                        std::optional<std::uint64_t> generation) {
  frame.set_generation(generation.value_or(plan_.generation.value));
  feed(FromAgent{id, std::move(frame)});
}

HostId Conversation::host(const std::string& name) const {
  for (const auto& [id, known] : policy_.host_names) {
    if (known == name) return id;
  }
  throw std::invalid_argument("'" + name + "' is no host");
}

std::vector<HostId> Conversation::hosts_or_members(const Words& words) const {
  std::vector<HostId> ids;
  for (const auto& name : words.plain) ids.push_back(host(name));
  if (!ids.empty()) return ids;
  for (const auto& member : plan_.members) {
    if (!dead_.contains(member.host)) ids.push_back(member.host);
  }
  return ids;
}

// ---- the job, time, the disk

void Conversation::job(Words& words) {
  HostId id{};
  for (const auto& entry : split(words.get("hosts", "a:1,b:1"), ',')) {
    const auto parts = split(entry, ':');
    policy_.host_names[id] = parts.at(0);
    workers_[id] = parts.size() > 1 ? static_cast<std::uint32_t>(integer(parts[1])) : 1;
    ++id.value;
  }
  policy_.job_id = "job-1";
  policy_.job_name = "test";
  policy_.trainer = !words.has("program");
  policy_.steps = words.number("steps", 100);
  policy_.trainer_settings = words.get("settings", "{}");
  policy_.logical_batches_min = static_cast<std::uint32_t>(words.number("batches_min", 0));
  policy_.checkpoint_directory = words.get("directory", policy_.trainer ? "/ckpt" : "");
  if (const auto every = words.get("every", ""); !every.empty()) {
    policy_.every = EveryTime{duration(every)};
  } else {
    policy_.every = EverySteps{20};
  }
  policy_.keep = static_cast<std::uint32_t>(words.number("keep", 3));
  policy_.fresh = words.has("fresh");
  policy_.process_restarts_max = static_cast<std::uint32_t>(words.number("restarts", 10));
  policy_.no_progress_generations = static_cast<std::uint32_t>(words.number("no_progress", 3));
  policy_.hang_floor = duration(words.get("hang_floor", "60s"));
  policy_.lease = duration(words.get("lease", "10s"));
  Recovered recovered;
  recovered.last_generation.value = words.number("last_generation", 0);
  if (words.named.contains("best")) recovered.best_step = Step{words.number("best", 0)};
  job_.emplace(policy_, recovered, now_);
  feed(Begin{});
}

void Conversation::restart(Words& words) {
  for (auto lost = words.number("lost_rows", 0); lost > 0; --lost) rows_.pop_back();
  dead_.clear();
  tickets_.clear();
  job_.emplace(policy_, recover(rows_, incidents_), now_);
  feed(Begin{});
}

void Conversation::hello(Words& words) {
  static const std::map<std::string, protocol::HostPhase> kPhases = {
      {"idle", protocol::HOST_IDLE},         {"clearing", protocol::HOST_CLEARING},
      {"starting", protocol::HOST_STARTING}, {"ready", protocol::HOST_READY},
      {"joining", protocol::HOST_JOINING},   {"training", protocol::HOST_TRAINING}};
  for (const auto id : hosts_or_members(words)) {
    protocol::Hello hello;
    hello.set_generation(words.number("g", plan_.generation.value));
    hello.set_phase(kPhases.at(words.get("phase", "training")));
    hello.set_aborted(words.has("aborted"));
    hello.set_stop_told(words.has("stop_told"));
    for (const auto& member : plan_.members) {
      if (member.host != id || hello.phase() < protocol::HOST_STARTING) continue;
      for (std::uint32_t i = 0; i < member.workers; ++i) {
        auto* worker = hello.add_workers();
        worker->set_rank(member.first_rank.value + i);
        worker->set_pid(1000 + worker->rank());
        worker->set_alive(!words.has("dead") && !words.has("finished"));
        worker->set_finished(words.has("finished"));
        if (words.named.contains("step")) worker->set_step(words.number("step", 0));
      }
    }
    feed(AgentArrived{id, std::move(hello)});
  }
}

void Conversation::wait(Words& words) {
  const auto until = now_ + duration(words.rest());
  std::optional<Instant> before;
  for (int same = 0; const auto due = job_->next_deadline();) {
    if (*due > until) break;
    // A few things may be due at the same moment, but each of them once.
    same = due == before ? same + 1 : 0;
    if (same > 5) throw std::logic_error("a deadline stays for ever");
    before = due;
    now_ = std::max(now_, *due);
    feed(DeadlineDue{});
  }
  now_ = until;
}

void Conversation::journal(Words& words) { journal_mode_ = words.next(); }

void Conversation::journaled(Words&) {
  while (!tickets_.empty()) {
    const auto ticket = tickets_.front();
    tickets_.pop_front();
    feed(Journaled{ticket});
  }
}

// ---- the coordinator

void Conversation::quorum(Words&) {
  feed(FromCoordinator{rendezvous::QuorumReached{"all hosts are ready"}});
}
void Conversation::impossible(Words& words) {
  feed(FromCoordinator{
      rendezvous::QuorumImpossible{words.rest(), words.has("by_key"), words.has("by_files")}});
}
void Conversation::nobody(Words&) {
  feed(FromCoordinator{rendezvous::NobodyCameBack{"no agent came back"}});
}
void Conversation::cannot_form(Words& words) {
  feed(FromCoordinator{rendezvous::CannotForm{words.rest()}});
}

void Conversation::formed(Words& words) {
  plan_ = {};
  told_.clear();
  exited_.clear();
  written_.clear();
  committed_.reset();
  wish_.clear();
  plan_.generation.value = integer(words.next());
  for (const auto& name : words.plain) {
    const auto id = host(name);
    dead_.erase(id);
    plan_.members.push_back({id, Rank{plan_.world_size}, workers_.at(id), "10.0.0.1"});
    plan_.world_size += workers_.at(id);
  }
  if (const auto pair = split(words.get("replaced", ""), '>'); pair.size() == 2) {
    plan_.replaced.emplace_back(host(pair[0]), host(pair[1]));
  }
  feed(FromCoordinator{rendezvous::Formed{plan_, "as asked"}});
}

void Conversation::lost(Words& words) {
  const auto id = host(words.next());
  dead_.insert(id);
  feed(FromCoordinator{
      rendezvous::HostLost{id, now_ - duration(words.get("ago", "600ms")), "silent for 600 ms"}});
}
void Conversation::gone(Words& words) {
  const auto id = host(words.next());
  evidence_.erase(id);
  dead_.insert(id);
  feed(FromCoordinator{rendezvous::AgentGone{id, now_, true}});
}
void Conversation::returned(Words& words) {
  const auto name = words.next();
  if (words.has("joins")) wish_ = name + " joins";
  feed(FromCoordinator{rendezvous::HostReturned{host(name), words.has("joins")}});
}

// ---- starting

void Conversation::found(Words& words) {
  protocol::AgentFrame frame;
  auto& found = *frame.mutable_checkpoints_found();
  found.set_error(words.get("error", ""));
  found.set_locked_by(words.get("locked", ""));
  for (const auto& step : words.plain) {
    if (step.ends_with('!')) {
      auto* damaged = found.add_damaged();
      damaged->set_step(integer(step.substr(0, step.size() - 1)));
      damaged->set_reason("its manifest.json is no manifest");
      continue;
    }
    auto* fact = found.add_checkpoints();
    fact->set_step(integer(step));
    fact->set_config(words.get("config", "{}"));
    fact->set_data(words.get("data", "{}"));
  }
  from(plan_.members.at(0).host, std::move(frame));
}
void Conversation::data(Words& words) {
  data_ = words.rest();
  feed(DataKnown{data_});
}

void Conversation::looked(Words& words) {
  for (const auto id : hosts_or_members(words)) {
    if (id == plan_.members.at(0).host) continue;
    protocol::AgentFrame frame;
    frame.mutable_mark_looked()->set_error(words.get("error", ""));
    from(id, std::move(frame));
  }
}
void Conversation::fingerprint(Words& words) {
  const auto id = host(words.next());
  fingerprints_[id] = words.rest();
  feed(FingerprintKnown{id, fingerprints_[id]});
}

void Conversation::prepared(Words& words) {
  for (const auto id : hosts_or_members(words)) {
    protocol::AgentFrame frame;
    for (const auto& member : plan_.members) {
      if (member.host != id) continue;
      for (std::uint32_t i = 0; i < member.workers; ++i) {
        auto* endpoint = frame.mutable_prepared()->add_endpoints();
        endpoint->set_rank(member.first_rank.value + i);
        endpoint->set_address("10.0.0." + std::to_string(1 + id.value));
        endpoint->set_port(4711);
      }
    }
    frame.mutable_prepared()->set_held(words.number("held", 0));
    from(id, std::move(frame));
  }
}
void Conversation::connected(Words& words) {
  for (const auto id : hosts_or_members(words)) {
    protocol::AgentFrame frame;
    frame.mutable_connected();
    from(id, std::move(frame));
  }
}
void Conversation::restored(Words& words) {
  const auto step = integer(words.next());
  for (const auto id : hosts_or_members(words)) {
    protocol::AgentFrame frame;
    frame.mutable_restored()->set_step(step);
    from(id, std::move(frame));
  }
}

void Conversation::run(Words& words) {
  const auto step = words.plain.empty() ? "0" : words.next();
  Words none, checkpoints, restored_at;
  if (step != "0") checkpoints.plain.push_back(step);
  restored_at.plain.push_back(step);
  if (policy_.trainer && !policy_.checkpoint_directory.empty()) {
    found(checkpoints);
    looked(none);
  }
  prepared(none);
  connected(none);
  restored(restored_at);
}

}  // namespace dlaunch::supervisor::job
