// Worker messages to and from lines of JSON.
#include "protocol/worker_message.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/utf8.h"
#include "protocol/json_fields.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"

namespace dlaunch::protocol {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<worker::FailingCategory, std::string_view>, 7> kCategories{{
    {worker::FailingCategory::user_error, "user_error"},
    {worker::FailingCategory::storage, "storage"},
    {worker::FailingCategory::peer_lost, "peer_lost"},
    {worker::FailingCategory::bad_numbers, "bad_numbers"},
    {worker::FailingCategory::config_error, "config_error"},
    {worker::FailingCategory::out_of_memory, "out_of_memory"},
    {worker::FailingCategory::checkpoint_damaged, "checkpoint_damaged"},
}};

using worker::Figures;
constexpr std::array<std::pair<const char*, double Figures::*>, 6> kNumbers{{
    {"seconds_p50", &Figures::seconds_p50},
    {"seconds_p95", &Figures::seconds_p95},
    {"collective_seconds", &Figures::collective_seconds},
    {"flops", &Figures::flops},
    {"gemm_flops_per_second", &Figures::gemm_flops_per_second},
    {"peak_flops_per_second", &Figures::peak_flops_per_second},
}};
constexpr std::array<std::pair<const char*, std::uint64_t Figures::*>, 3> kWholeNumbers{{
    {"bytes_sent", &Figures::bytes_sent},
    {"memory_bytes", &Figures::memory_bytes},
    {"memory_peak_bytes", &Figures::memory_peak_bytes},
}};

template <class T>
json or_null(const std::optional<T>& id) {
  return id ? json(id->value) : json(nullptr);
}

json to_json(const worker::Hello& hello) {
  return {{"type", "hello"},
          {"protocol", hello.protocol},
          {"rank", hello.rank.value},
          {"local_rank", hello.local_rank},
          {"pid", hello.pid}};
}
json to_json(const worker::Ready& ready) {
  return {{"type", "ready"}, {"address", ready.address}, {"port", ready.port}};
}
json to_json(const worker::Parked& parked) {
  return {{"type", "parked"},
          {"live_step", or_null(parked.live_step)},
          {"live_clean", parked.live_clean},
          {"slots", json::array()}};
}
json to_json(const worker::Connected&) { return {{"type", "connected"}}; }
json to_json(const worker::Restored& restored) {
  const auto differs = to_utf8(restored.differs, kFailingReasonBytesMax);
  return {{"type", "restored"}, {"step", restored.step.value}, {"differs", differs}};
}
json finite_or_null(const std::optional<double>& number) {
  return number && std::isfinite(*number) ? json(*number) : json(nullptr);
}
json to_json(const worker::Progress& progress) {
  json line{
      {"type", "progress"},
      {"step", progress.step.value},
      {"phase", progress.phase},
      {"seconds", progress.seconds},
      {"waiting", progress.waiting},
      {"loss", finite_or_null(progress.loss)},
      {"tokens", progress.tokens},
      {"sequence", progress.sequence},
      {"entered", progress.entered},
      {"gradient_norm", finite_or_null(progress.figures.gradient_norm)},
      {"validation_loss", finite_or_null(progress.figures.validation_loss)},
      {"validation_step",
       progress.figures.validation_step ? json(*progress.figures.validation_step) : json(nullptr)}};
  for (const auto& [key, figure] : kNumbers) line[key] = progress.figures.*figure;
  for (const auto& [key, figure] : kWholeNumbers) line[key] = progress.figures.*figure;
  return line;
}
json to_json(const worker::Written& written) {
  return {{"type", "written"},      {"step", written.step.value}, {"file", written.file},
          {"bytes", written.bytes}, {"hash", written.hash},       {"seconds", written.seconds}};
}
json to_json(const worker::Failing& failing) {
  return {{"type", "failing"},
          {"category", name_of(failing.category)},
          {"reason", to_utf8(failing.reason, kFailingReasonBytesMax)},
          {"suspect_rank", or_null(failing.suspect_rank)}};
}
json to_json(const worker::Finished& finished) {
  return {{"type", "finished"}, {"step", finished.step.value}};
}

json list_of(const std::vector<worker::Endpoint>& endpoints) {
  auto list = json::array();
  for (const auto& endpoint : endpoints) {
    list.push_back(
        {{"rank", endpoint.rank.value}, {"address", endpoint.address}, {"port", endpoint.port}});
  }
  return list;
}
json to_json(const worker::Endpoints& part) {
  return {{"type", "endpoints"}, {"endpoints", list_of(part.endpoints)}};
}
json to_json(const worker::Assign& assign) {
  json restore = nullptr;
  auto trainer = read_json(assign.trainer);
  if (trainer.is_discarded()) trainer = nullptr;
  if (assign.restore) {
    restore = {{"step", assign.restore->step.value}, {"directory", assign.restore->directory}};
  }
  return {{"type", "assign"},
          {"job", assign.job},
          {"group", assign.group},
          {"incarnation", assign.incarnation.value},
          {"rank", assign.rank.value},
          {"world_size", assign.world_size},
          {"local_rank", assign.local_rank},
          {"token", assign.token},
          {"endpoints", list_of(assign.endpoints)},
          {"restore", std::move(restore)},
          {"checkpoint_directory", assign.checkpoint_directory},
          {"trainer", std::move(trainer)}};
}
json to_json(const worker::Go&) { return {{"type", "go"}}; }
json to_json(const worker::Abort& abort) { return {{"type", "abort"}, {"reason", abort.reason}}; }
json to_json(const worker::CheckpointAt&) { return {{"type", "checkpoint_at"}}; }
json to_json(const worker::Stop& stop) {
  return {{"type", "stop"}, {"checkpoint", stop.checkpoint}};
}
json to_json(const worker::Committed& committed) {
  return {{"type", "committed"}, {"step", committed.step.value}};
}

Result<std::string> finish_line(json object, Generation generation) {
  object["generation"] = generation.value;
  auto line = json_text(object) + "\n";
  if (line.size() - 1 > kWorkerLineBytesMax) {
    return failure(std::errc::message_size,
                   "writing “" + object["type"].get<std::string>() +
                       "” for the worker socket: " + std::to_string(line.size()) +
                       " bytes, a line may have " + std::to_string(kWorkerLineBytesMax));
  }
  return line;
}

worker::Hello read_hello(JsonFields& fields) {
  return {fields.whole<std::uint32_t>("protocol"), Rank{fields.whole<std::uint32_t>("rank")},
          fields.whole<std::uint32_t>("local_rank"), fields.whole<std::uint32_t>("pid")};
}
worker::Parked read_parked(JsonFields& fields) {
  worker::Parked parked;
  if (fields.has("live_step")) parked.live_step = Step{fields.whole<std::uint64_t>("live_step")};
  parked.live_clean = fields.has("live_clean") && fields.boolean("live_clean");
  return parked;
}
worker::Progress read_progress(JsonFields& fields) {
  worker::Progress progress;
  progress.step = Step{fields.whole<std::uint64_t>("step")};
  if (fields.has("phase")) progress.phase = fields.text("phase");
  if (fields.has("seconds")) progress.seconds = fields.number("seconds");
  if (fields.has("waiting")) progress.waiting = fields.number("waiting");
  if (fields.has("loss")) progress.loss = fields.number("loss");
  if (fields.has("tokens")) progress.tokens = fields.whole<std::uint64_t>("tokens");
  if (fields.has("sequence")) progress.sequence = fields.whole<std::uint64_t>("sequence");
  if (fields.has("entered")) progress.entered = fields.boolean("entered");
  auto& figures = progress.figures;
  if (fields.has("gradient_norm")) figures.gradient_norm = fields.number("gradient_norm");
  if (fields.has("validation_loss")) figures.validation_loss = fields.number("validation_loss");
  if (fields.has("validation_step")) {
    figures.validation_step = fields.whole<std::uint64_t>("validation_step");
  }
  for (const auto& [key, figure] : kNumbers) {
    if (fields.has(key)) figures.*figure = fields.number(key);
  }
  for (const auto& [key, figure] : kWholeNumbers) {
    if (fields.has(key)) figures.*figure = fields.whole<std::uint64_t>(key);
  }
  return progress;
}
worker::Written read_written(JsonFields& fields) {
  return {Step{fields.whole<std::uint64_t>("step")}, fields.text("file"),
          fields.whole<std::uint64_t>("bytes"), fields.text("hash"), fields.number("seconds")};
}
worker::Failing read_failing(JsonFields& fields) {
  worker::Failing failing;
  const auto name = fields.text("category");
  bool known = false;
  for (const auto& [category, category_name] : kCategories) {
    if (name == category_name) {
      failing.category = category;
      known = true;
    }
  }
  if (!known) fields.add_error("key \"category\" is none of the known ones");
  failing.reason = fields.text("reason");
  if (fields.has("suspect_rank")) {
    failing.suspect_rank = Rank{fields.whole<std::uint32_t>("suspect_rank")};
  }
  return failing;
}

std::vector<worker::Endpoint> read_endpoints(JsonFields& fields) {
  std::vector<worker::Endpoint> endpoints;
  const auto* list = fields.nested("endpoints", /*object=*/false);
  if (list == nullptr) return endpoints;
  for (const auto& item : *list) {
    if (!item.is_object()) {
      fields.add_error("an entry of \"endpoints\" is no object");
      return endpoints;
    }
    JsonFields entry(item);
    endpoints.push_back({Rank{entry.whole<std::uint32_t>("rank")}, entry.text("address"),
                         entry.whole<std::uint16_t>("port")});
    if (!entry.error().empty()) fields.add_error("in \"endpoints\": " + entry.error());
  }
  return endpoints;
}
worker::Assign read_assign(JsonFields& fields) {
  worker::Assign assign;
  assign.job = fields.text("job");
  assign.group = fields.text("group");
  assign.incarnation = Incarnation{fields.whole<std::uint64_t>("incarnation")};
  assign.rank = Rank{fields.whole<std::uint32_t>("rank")};
  assign.world_size = fields.whole<std::uint32_t>("world_size");
  assign.local_rank = fields.whole<std::uint32_t>("local_rank");
  assign.token = fields.text("token");
  assign.endpoints = read_endpoints(fields);
  if (fields.has("restore")) {
    if (const auto* restore = fields.nested("restore", /*object=*/true)) {
      JsonFields entry(*restore);
      assign.restore =
          worker::Restore{Step{entry.whole<std::uint64_t>("step")}, entry.text("directory")};
      if (!entry.error().empty()) fields.add_error("in \"restore\": " + entry.error());
    }
  }
  assign.checkpoint_directory = fields.text("checkpoint_directory");
  if (const auto* trainer = fields.nested("trainer", /*object=*/true)) {
    assign.trainer = trainer->dump();
  }
  return assign;
}

std::optional<WorkerMessage::Body> read_worker_body(const std::string& type, JsonFields& fields) {
  if (type == "hello") return read_hello(fields);
  if (type == "ready") {
    return worker::Ready{fields.text("address"), fields.whole<std::uint16_t>("port")};
  }
  if (type == "parked") return read_parked(fields);
  if (type == "connected") return worker::Connected{};
  if (type == "restored") {
    const auto differs = fields.has("differs") ? fields.text("differs") : "";
    return worker::Restored{Step{fields.whole<std::uint64_t>("step")}, differs};
  }
  if (type == "progress") return read_progress(fields);
  if (type == "written") return read_written(fields);
  if (type == "failing") return read_failing(fields);
  if (type == "finished") return worker::Finished{Step{fields.whole<std::uint64_t>("step")}};
  return std::nullopt;
}
std::optional<AgentMessage::Body> read_agent_body(const std::string& type, JsonFields& fields) {
  if (type == "assign") return read_assign(fields);
  if (type == "endpoints") return worker::Endpoints{read_endpoints(fields)};
  if (type == "go") return worker::Go{};
  if (type == "abort") return worker::Abort{fields.text("reason")};
  if (type == "checkpoint_at") return worker::CheckpointAt{};
  if (type == "stop") return worker::Stop{fields.boolean("checkpoint")};
  if (type == "committed") return worker::Committed{Step{fields.whole<std::uint64_t>("step")}};
  return std::nullopt;
}

template <class Message, class ReadBody>
Result<std::optional<Message>> parse_line(std::string_view line, const char* doing,
                                          ReadBody read_body) {
  const auto bad = [&](const std::string& why) {
    return failure(std::errc::bad_message, std::string(doing) + ": " + why);
  };
  if (line.size() > kWorkerLineBytesMax) return bad("the line is too long");
  const auto object = read_json(line);
  if (!object.is_object()) return bad("the line is no JSON object, or nests too deep");
  JsonFields fields(object);
  const auto type = fields.text("type");
  const Generation generation{fields.whole<std::uint64_t>("generation")};
  auto body = read_body(type, fields);
  if (!fields.error().empty()) {
    return bad((type.empty() ? "" : "“" + type + "”: ") + fields.error());
  }
  if (!body) return std::optional<Message>{};
  return std::optional<Message>{Message{generation, std::move(*body)}};
}

}  // namespace

std::string_view name_of(worker::FailingCategory category) {
  for (const auto& [value, name] : kCategories) {
    if (value == category) return name;
  }
  return "unknown";
}

Result<std::string> format_line(const WorkerMessage& message) {
  return finish_line(std::visit([](const auto& body) { return to_json(body); }, message.body),
                     message.generation);
}
Result<std::string> format_line(const AgentMessage& message) {
  auto object = std::visit([](const auto& body) { return to_json(body); }, message.body);
  if (std::holds_alternative<worker::Assign>(message.body) && !object["trainer"].is_object()) {
    return failure(std::errc::invalid_argument,
                   "writing “assign” for the worker socket: the "
                   "trainer's settings are no JSON object");
  }
  return finish_line(std::move(object), message.generation);
}

Result<std::string> format_lines(const AgentMessage& message) {
  const auto* whole = std::get_if<worker::Assign>(&message.body);
  if (whole == nullptr) return format_line(message);
  // So much of a line for the endpoints leaves as much for the rest of an assignment.
  constexpr std::size_t kPartBytesMax = kWorkerLineBytesMax / 2;
  constexpr std::size_t kBesideAddress = 48;  // {"address":"","port":65535,"rank":4294967295},
  std::string lines;
  auto assign = *whole;
  assign.endpoints.clear();
  std::size_t bytes = 0;
  for (const auto& endpoint : whole->endpoints) {
    bytes += kBesideAddress + endpoint.address.size();
    if (bytes > kPartBytesMax) {
      const auto line = format_line(
          AgentMessage{message.generation, worker::Endpoints{std::move(assign.endpoints)}});
      if (!line) return line;
      lines += *line;
      assign.endpoints.clear();
      bytes = kBesideAddress + endpoint.address.size();
    }
    assign.endpoints.push_back(endpoint);
  }
  const auto last = format_line(AgentMessage{message.generation, std::move(assign)});
  if (!last) return last;
  return lines + *last;
}

Result<std::optional<WorkerMessage>> parse_worker_line(std::string_view line) {
  return parse_line<WorkerMessage>(line, "reading a worker's line", read_worker_body);
}
Result<std::optional<AgentMessage>> parse_agent_line(std::string_view line) {
  return parse_line<AgentMessage>(line, "reading the agent's line", read_agent_body);
}

Result<std::optional<std::string>> LineReader::next() {
  const auto end = buffer_.find('\n', taken_);
  const auto length = (end == std::string::npos ? buffer_.size() : end) - taken_;
  if (length > kWorkerLineBytesMax) {
    return failure(std::errc::message_size, "reading the worker socket: a line is longer than " +
                                                std::to_string(kWorkerLineBytesMax) + " bytes");
  }
  if (end == std::string::npos) {
    buffer_.erase(0, std::exchange(taken_, 0));
    return std::optional<std::string>{};
  }
  auto line = buffer_.substr(taken_, length);
  taken_ = end + 1;
  return std::optional<std::string>{std::move(line)};
}

}  // namespace dlaunch::protocol
