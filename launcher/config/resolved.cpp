#include "launcher/config/resolved.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/overloaded.h"
#include "launcher/config/hosts_toml.h"
#include "launcher/config/train_toml.h"

namespace dlaunch::launcher::config {
namespace {

std::string quoted(std::string_view text) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (byte < ' ' || byte == 0x7F) {
      result += std::string("\\u00") + kDigits[byte / 16] + kDigits[byte % 16];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

/// The shortest text that reads back to the same number.
std::string number(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string result(text.data(), end);
  const bool whole = result.find_first_of(".e") == std::string::npos;
  return whole ? result + ".0" : result;
}

/// In the largest unit that divides it: nothing is rounded.
std::string exact(nanoseconds duration) {
  using Unit = std::pair<nanoseconds, const char*>;
  constexpr std::array<Unit, 5> kUnits{
      {{1h, " h"}, {1min, " min"}, {1s, " s"}, {1ms, " ms"}, {1us, " us"}}};
  for (const auto& [unit, name] : kUnits) {
    if (duration % unit == 0ns) return quoted(std::to_string(duration / unit) + name);
  }
  return quoted(std::to_string(duration.count()) + " ns");
}

std::string array_of(const std::vector<std::string>& texts) {
  std::string result = "[";
  for (const auto& text : texts) result += (result.size() > 1 ? ", " : "") + quoted(text);
  return result + "]";
}

/// Builds the document line by line.
class Writer {
 public:
  void table(const std::string& header) { text_ += (text_.empty() ? "" : "\n") + header + "\n"; }
  void raw(const std::string& key, const std::string& value) {
    text_ += key + " = " + value + "\n";
  }
  void text(const std::string& key, const std::string& value) { raw(key, quoted(value)); }
  void text_if(const std::string& key, const std::string& value) {
    if (!value.empty()) text(key, value);
  }
  void whole(const std::string& key, std::uint64_t value) { raw(key, std::to_string(value)); }
  void whole_if(const std::string& key, std::uint64_t value) {
    if (value != 0) whole(key, value);
  }
  void flag(const std::string& key, bool value) { raw(key, value ? "true" : "false"); }
  void duration(const std::string& key, nanoseconds value) { raw(key, exact(value)); }
  void duration(const std::string& key, std::optional<nanoseconds> value) {
    raw(key, value ? exact(*value) : quoted("auto"));
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write_job(Writer& writer, const JobSection& job) {
  writer.table("[job]");
  writer.text("name", job.name);
  if (job.hosts_min != 0) {
    writer.text("hosts", std::to_string(job.hosts_min) + ".." + std::to_string(job.hosts_max));
  }
  writer.whole("hosts_step", job.hosts_step);
  writer.duration("start_timeout", job.start_timeout);
}

void write_trainer(Writer& writer, const TrainerSection& trainer) {
  writer.table("[trainer]");
  writer.text("strategy", trainer.strategy);
  writer.whole("steps", trainer.steps);
  writer.whole_if("logical_batches", trainer.logical_batches);
  writer.whole("micro_batch", trainer.micro_batch);
  writer.raw("learning_rate", number(trainer.learning_rate));
  writer.whole("seed", trainer.seed);
  writer.whole("warmup_steps", trainer.warmup_steps);
  writer.text("schedule", trainer.schedule);
  if (trainer.schedule == "cosine") {
    writer.raw("min_learning_rate", number(trainer.min_learning_rate));
    writer.whole_if("decay_steps", trainer.decay_steps);
  }
  writer.raw("weight_decay", number(trainer.weight_decay));
  writer.raw("clip", number(trainer.clip));
  writer.raw("betas", "[" + number(trainer.betas[0]) + ", " + number(trainer.betas[1]) + "]");
  writer.text("precision", trainer.precision);
  writer.text("device", trainer.device);
  writer.flag("activation_checkpointing", trainer.activation_checkpointing);
  if (trainer.strategy != "ddp") writer.flag("prefetch", trainer.prefetch);
  writer.whole_if("shard_size", trainer.shard_size);
  writer.text("validate_every", trainer.validate_every_steps == 0
                                    ? "off"
                                    : std::to_string(trainer.validate_every_steps) + " steps");
  writer.flag("check_collectives", trainer.check_collectives);
  writer.whole_if("connections", trainer.connections);
  writer.text_if("weights", trainer.weights);
  writer.table("[trainer.model]");
  writer.whole("layers", trainer.model.layers);
  writer.whole("width", trainer.model.width);
  writer.whole("heads", trainer.model.heads);
  writer.whole("context", trainer.model.context);
  writer.whole("vocabulary", trainer.model.vocabulary);
  writer.table("[trainer.data]");
  writer.text_if("text", trainer.text);
  writer.text_if("tokens", trainer.tokens);
  writer.raw("validation", number(trainer.validation));
}

void write_program(Writer& writer, const ProgramSection& program) {
  writer.table("[program]");
  writer.raw("command", array_of(program.command));
  writer.text("directory", program.directory);
  writer.raw("inherit", array_of(program.inherit));
  writer.raw("wrap", array_of(program.wrap));
  writer.text_if("step_pattern", program.step_pattern);
  writer.text_if("checkpoint_glob", program.checkpoint_glob);
  writer.table("[program.environment]");
  for (const auto& [name, value] : program.environment) writer.text(quoted(name), value);
}

void write_checkpoint(Writer& writer, const TrainFile& train) {
  const auto& checkpoint = train.checkpoint;
  writer.table("[checkpoint]");
  writer.text_if("directory", checkpoint.directory);
  if (!train.trainer) return;
  writer.raw("every",
             std::visit(Overloaded{[](const EveryAuto&) { return quoted("auto"); },
                                   [](const EverySteps& every) {
                                     return quoted(std::to_string(every.steps) + " steps");
                                   },
                                   [](const EveryTime& every) { return exact(every.interval); }},
                        checkpoint.every));
  writer.whole("keep", checkpoint.keep);
  writer.flag("memory", checkpoint.memory);
}

void write_recovery(Writer& writer, const RecoverySection& recovery) {
  writer.table("[recovery]");
  writer.flag("spare_first", recovery.spare_first);
  writer.duration("wait_for_host", recovery.wait_for_host);
  writer.raw("restarts", "{ process = " + std::to_string(recovery.restarts) +
                             ", window = " + exact(recovery.restarts_window) + " }");
  writer.whole("no_progress_generations", recovery.no_progress_generations);
  writer.duration("stop_grace", recovery.stop_grace);
  writer.duration("lease", recovery.lease);
  writer.text("on_lease_end", recovery.stop_on_lease_end ? "stop" : "keep");
  writer.flag("quarantine", recovery.quarantine);
  writer.duration("partition_grace", recovery.partition_grace);
  writer.duration("readmit", recovery.readmit);
  writer.duration("abort_deadline", recovery.abort_deadline);
}

void write_health(Writer& writer, const HealthSection& health) {
  writer.table("[health]");
  writer.duration("heartbeat", health.heartbeat);
  writer.duration("lost_after", health.lost_after);
  writer.duration("hang_floor", health.hang_floor);
  writer.duration("start_limit", health.start_limit);
  writer.duration("checkpoint_limit", health.checkpoint_limit);
  writer.duration("link_window", health.link_window);
}

void write_host(Writer& writer, const HostSpec& host) {
  const bool local = host.transport == Transport::local;
  writer.table("[[host]]");
  writer.text("name", host.name);
  if (!local) writer.text("address", host.address);
  writer.text_if("data_address", host.data_address);
  writer.text_if("data_interface", host.data_interface);
  writer.text_if("user", host.user);
  writer.whole_if("port", host.port);
  writer.text_if("identity", host.identity);
  writer.text_if("jump", host.jump);
  writer.text_if("scratch", host.scratch);
  writer.text_if("trainer", host.trainer);
  writer.raw("workers", host.workers ? std::to_string(*host.workers) : quoted("auto"));
  writer.flag("spare", host.spare);
  writer.text("transport", local ? "local" : "ssh");
  if (host.expect != Expectation{}) {
    writer.raw("expect", "{ gpus = " + std::to_string(host.expect.gpus) + " }");
  }
}

void write_network(Writer& writer, const NetworkSpec& network) {
  writer.table("[network]");
  writer.text_if("controller_address", network.controller_address);
  writer.text("ports",
              std::to_string(network.port_first) + "-" + std::to_string(network.port_last));
  writer.text("control", network.control);
  writer.text("host_keys", network.host_keys == HostKeys::strict ? "strict" : "accept-new");
  writer.text("ssh", network.ssh);
  writer.duration("connect_timeout", network.connect_timeout);
}

// 65,536 hosts with all their keys.
constexpr std::size_t kResolvedBytesMax = 64 * 1024 * 1024;

}  // namespace

std::string write_resolved(const Resolved& resolved) {
  const auto& train = resolved.train;
  Writer writer;
  write_job(writer, train.job);
  if (train.trainer) write_trainer(writer, *train.trainer);
  if (train.program) write_program(writer, *train.program);
  write_checkpoint(writer, train);
  write_recovery(writer, train.recovery);
  write_health(writer, train.health);
  write_network(writer, resolved.hosts.network);
  for (const auto& host : resolved.hosts.hosts) write_host(writer, host);
  return writer.take();
}

std::variant<Resolved, std::vector<Problem>> read_resolved(std::string_view text,
                                                           const std::string& file) {
  Reading reading(file);
  auto train = parse_document(text, kResolvedBytesMax, file, reading);
  if (!train) return reading.take();
  toml::table hosts;
  for (const char* key : {"host", "network"}) {
    auto* node = train->get(key);
    if (node == nullptr) continue;
    std::move(*node).visit(
        [&](auto&& moved) { hosts.insert(key, std::forward<decltype(moved)>(moved)); });
    train->erase(key);
  }
  Resolved resolved;
  resolved.hosts = read_hosts(hosts, reading);
  resolved.train = read_train(*train, {file, "/", "/", {}}, reading);
  if (!reading.empty()) return reading.take();
  return resolved;
}

}  // namespace dlaunch::launcher::config
