#include "launcher/controller/io/sessions.h"

#include <utility>

#include "protocol/json_text.h"

namespace dlaunch::launcher::controller {
namespace {

using nlohmann::json;
namespace job = supervisor::job;

// Events sent at once; the next ones when the client has taken these.
constexpr std::size_t kEventsPerTurn = 500;

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
  const auto request = json::parse(line, nullptr, false);
  if (!request.is_object()) return send(client, error("a request is a JSON object"));
  const auto kind = text(request, "request");
  if (kind == "status") return send(client, hands_.status());
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
      hands_.put(DrainAsked{*host});
    } else {
      hands_.put(AddAsked{*host});
    }
    return {{"ok", true}};
  }
  return error("unknown request '" + kind +
               "'; known: status, events, logs, watch, stop, checkpoint, drain, add");
}

void Sessions::start_events(ClientId client, const json& request) {
  sessions_[client] = FollowsEvents{number(request, "after").value_or(0), flag(request, "follow")};
  pump(client);
}

void Sessions::pump(ClientId client) {
  const auto found = sessions_.find(client);
  if (found == sessions_.end()) return;
  auto* session = std::get_if<FollowsEvents>(&found->second);
  if (session == nullptr || server_.waiting(client) > 0) return;
  const auto events = events_.after(session->last_id, kEventsPerTurn);
  for (const auto& event : events) {
    session->last_id = event.id;
    send(client, event_json(event));
  }
  if (events.empty() && (over_ || !session->follow)) server_.finish(client);
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
  sessions_[client] = wanted;
  for (const auto& chunk : output_.all()) {
    const bool fits = (!wanted.rank || *wanted.rank == chunk.rank) &&
                      (!wanted.host || *wanted.host == chunk.host) &&
                      (!wanted.generation || *wanted.generation == chunk.generation);
    if (fits) send(client, output_json(chunk));
  }
  if (over_ || !flag(request, "follow")) {
    sessions_.erase(client);
    server_.finish(client);
  }
}

void Sessions::start_watch(ClientId client, const json& request) {
  sessions_[client] = Watches{flag(request, "attached")};
  const auto status = hands_.status();
  send(client, {{"type", "state"}, {"state", status.at("state")}, {"reason", status.at("reason")}});
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

void Sessions::on_output(const OutputChunk& chunk) {
  const auto line = output_json(chunk);
  for (const auto& [client, session] : sessions_) {
    if (const auto* wanted = std::get_if<FollowsOutput>(&session)) {
      const bool fits = (!wanted->rank || *wanted->rank == chunk.rank) &&
                        (!wanted->host || *wanted->host == chunk.host) &&
                        (!wanted->generation || *wanted->generation == chunk.generation);
      if (fits) send(client, line);
    } else if (std::holds_alternative<Watches>(session) && chunk.rank == Rank{0}) {
      send(client, line);
    }
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
  on_event();
  std::vector<ClientId> others;
  for (const auto& [client, session] : sessions_) {
    if (!std::holds_alternative<FollowsEvents>(session)) others.push_back(client);
  }
  for (const auto client : others) server_.finish(client);
  server_.stop();
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

json Sessions::output_json(const OutputChunk& chunk) const {
  const auto host = job_.host_names.find(chunk.host);
  return {{"type", "output"},
          {"rank", chunk.rank.value},
          {"host", host == job_.host_names.end() ? "" : host->second},
          {"generation", chunk.generation.value},
          {"error", chunk.error_stream},
          {"text", chunk.text}};
}

}  // namespace dlaunch::launcher::controller
