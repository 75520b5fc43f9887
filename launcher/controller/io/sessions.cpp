#include "launcher/controller/io/sessions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "protocol/json_text.h"

namespace dlaunch::launcher::controller {
namespace {

using nlohmann::json;
namespace job = supervisor::job;

// Events sent at once; the next ones when the client has taken these.
constexpr std::size_t kEventsPerTurn = 500;
constexpr std::size_t kOutputBytesPerTurn = 256 * 1024;

bool flag(const json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_boolean() && found->get<bool>();
}
std::optional<std::uint64_t> number(const json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}
std::string text(const json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : "";
}
json error(const std::string& sentence) { return {{"error", sentence}}; }

}  // namespace

Sessions::Sessions(boost::asio::io_context& context, const JobIdentity& job, const EventLog& events,
                   const OutputTail& output, Hands hands)
    : job_(job),
      events_(events),
      output_(output),
      hands_(std::move(hands)),
      server_(context,
              {[this](ClientId client, const std::string& line) { on_request(client, line); },
               [this](ClientId client) { pump(client); },
               [this](ClientId client) { on_gone(client); }}) {}

Result<void> Sessions::listen(const std::string& directory) { return server_.listen(directory); }

void Sessions::on_request(ClientId client, const std::string& line) {
  const auto request = protocol::read_json(line);
  if (!request.is_object()) return send(client, error("a request is a JSON object"));
  const auto kind = text(request, "request");
  if (kind == "status") return send(client, hands_.status());
  if (kind == "state") return send(client, hands_.summary());
  if (kind == "events") return start_events(client, request);
  if (kind == "logs") return start_logs(client, request);
  if (kind == "watch") return start_watch(client, request);
  send(client, act(request, kind));
}

json Sessions::act(const json& request, const std::string& kind) {
  if (kind == "stop") {
    auto reason = text(request, "reason");
    if (reason.empty()) reason = "asked for by the user";
    hands_.put(ForJob{job::StopAsked{flag(request, "now"), flag(request, "preempted"), reason}});
    return {{"ok", true}};
  }
  if (kind == "checkpoint") {
    hands_.put(ForJob{job::CheckpointAsked{}});
    return {{"ok", true}};
  }
  if (kind == "drain" || kind == "add") {
    const auto name = text(request, "host");
    const auto host = host_named(name);
    if (!host) return error("the job has no host named '" + name + "'");
    if (kind == "drain") {
      const auto obstacle = hands_.why_not_drain(*host);
      if (!obstacle.empty()) return error(obstacle);
      hands_.put(DrainAsked{*host});
    } else {
      hands_.put(AddAsked{*host});
    }
    return {{"ok", true}};
  }
  return error("unknown request '" + kind +
               "'; known: status, state, events, logs, watch, stop, checkpoint, drain, add");
}

void Sessions::start_events(ClientId client, const json& request) {
  FollowsEvents session;
  session.last_id = number(request, "after").value_or(0);
  session.follow = flag(request, "follow");
  sessions_[client] = session;
  pump(client);
}

void Sessions::pump(ClientId client) {
  const auto found = sessions_.find(client);
  if (found == sessions_.end() || server_.waiting(client) > 0) return;
  std::visit([&](auto& session) { pump(client, session); }, found->second);
}

void Sessions::pump(ClientId client, FollowsEvents& session) {
  if (session.reading) return;
  const auto first = events_.first_kept();
  if (session.last_id + 1 < first) {
    session.reading = true;
    const auto missing = static_cast<std::size_t>(first - 1 - session.last_id);
    return hands_.older_events(
        session.last_id, std::min(missing, kEventsPerTurn),
        [this, client](const std::vector<EventRow>& events) { on_older_events(client, events); });
  }
  const auto events = events_.after(session.last_id, kEventsPerTurn);
  for (const auto& event : events) {
    session.last_id = event.id;
    send(client, event_json(event));
  }
  if (events.empty() && (over_ || !session.follow)) finish(client);
}

void Sessions::on_older_events(ClientId client, const std::vector<EventRow>& events) {
  const auto found = sessions_.find(client);
  auto* session = found == sessions_.end() ? nullptr : std::get_if<FollowsEvents>(&found->second);
  if (session == nullptr || !session->reading) return;
  session->reading = false;
  for (const auto& event : events) {
    session->last_id = event.id;
    send(client, event_json(event));
  }
  if (!events.empty()) return;
  // The disk did not take them, or cannot be read: what is in memory goes on.
  session->last_id = events_.first_kept() - 1;
  pump(client);
}

void Sessions::start_logs(ClientId client, const json& request) {
  FollowsOutput wanted;
  if (const auto rank = number(request, "rank")) {
    wanted.rank = Rank{static_cast<std::uint32_t>(*rank)};
  }
  if (const auto generation = number(request, "generation")) {
    wanted.generation = Generation{*generation};
  }
  if (const auto name = text(request, "host"); !name.empty()) {
    wanted.host = host_named(name);
    if (!wanted.host) {
      send(client, error("the job has no host named '" + name + "'"));
      return server_.finish(client);
    }
  }
  wanted.follow = flag(request, "follow");
  wanted.first = output_.newest().value_or(Generation{});
  for (const auto& piece : output_.of(wanted.generation.value_or(wanted.first))) {
    if (wanted.wants(*piece)) wanted.waiting.push_back(piece);
  }
  sessions_[client] = std::move(wanted);
  pump(client);
}

bool Sessions::FollowsOutput::wants(const OutputChunk& chunk) const {
  return (!rank || *rank == chunk.rank) && (!host || *host == chunk.host) &&
         (generation ? *generation == chunk.generation : chunk.generation >= first);
}

void Sessions::pump(ClientId client, FollowsOutput& session) {
  std::size_t sent = 0;
  while (!session.waiting.empty() && sent < kOutputBytesPerTurn) {
    const auto piece = std::move(session.waiting.front());
    session.waiting.pop_front();
    sent += piece->text.size();
    send(client, output_json(*piece));
  }
  if (!session.waiting.empty()) return;
  session.behind = 0;
  if (sent == 0 && (over_ || !session.follow)) finish(client);
}

void Sessions::finish(ClientId client) {
  send(client, {{"type", "done"}});
  sessions_.erase(client);
  server_.finish(client);
}

void Sessions::start_watch(ClientId client, const json& request) {
  sessions_[client] = Watches{flag(request, "attached")};
  send(client, hands_.summary());
  if (greeting_.empty()) return;
  send(client, {{"type", "say"}, {"sentence", std::exchange(greeting_, "")}});
}

void Sessions::on_gone(ClientId client) {
  const auto found = sessions_.find(client);
  if (found == sessions_.end()) return;
  const auto* watches = std::get_if<Watches>(&found->second);
  const bool tied = watches != nullptr && watches->attached;
  sessions_.erase(found);
  if (tied && !over_) {
    hands_.put(
        ForJob{job::StopAsked{false, true, "the process that the job is attached to is gone"}});
  }
}

void Sessions::on_event() {
  std::vector<ClientId> followers;
  for (const auto& [client, session] : sessions_) {
    if (std::holds_alternative<FollowsEvents>(session)) followers.push_back(client);
  }
  for (const auto client : followers) pump(client);
}

void Sessions::on_output(const OutputPiece& piece) {
  std::vector<ClientId> followers;
  for (auto& [client, session] : sessions_) {
    if (auto* wanted = std::get_if<FollowsOutput>(&session)) {
      if (!wanted->wants(*piece)) continue;
      wanted->waiting.push_back(piece);
      wanted->behind += piece->text.size();
      followers.push_back(client);
    } else if (std::holds_alternative<Watches>(session) && piece->rank == Rank{0}) {
      send(client, output_json(*piece));
    }
  }
  for (const auto client : followers) {
    pump(client);
    const auto found = sessions_.find(client);
    if (found == sessions_.end()) continue;
    if (std::get<FollowsOutput>(found->second).behind <= kBehindBytesMax) continue;
    send(client, {{"type", "dropped"}, {"error", "this client reads too slowly; it was dropped"}});
    sessions_.erase(found);
    server_.finish(client);
  }
}

void Sessions::tell(const json& message) {
  for (const auto& [client, session] : sessions_) {
    if (std::holds_alternative<Watches>(session)) send(client, message);
  }
}

void Sessions::end(int code, const std::string& sentence) {
  over_ = true;
  tell({{"type", "ended"}, {"code", code}, {"sentence", sentence}});
  std::set<ClientId> followers;
  for (const auto& [client, session] : sessions_) {
    if (!std::holds_alternative<Watches>(session)) followers.insert(client);
  }
  server_.stop(followers);
  for (const auto client : followers) pump(client);
}

void Sessions::send(ClientId client, const json& message) {
  server_.send(client, protocol::json_text(message));
}

std::optional<HostId> Sessions::host_named(const std::string& name) const {
  for (const auto& [host, known] : job_.host_names) {
    if (known == name) return host;
  }
  return std::nullopt;
}

}  // namespace dlaunch::launcher::controller
