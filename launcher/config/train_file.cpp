#include "launcher/config/train_file.h"

#include <algorithm>
#include <regex>

#include "base/units.h"
#include "launcher/config/toml_reader.h"

namespace dlaunch::launcher::config {
namespace {

const std::vector<std::string> kInherit = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
                                           "CONDA_*"};

std::string absolute(const std::string& path, const TrainContext& context) {
  if (path == "~" || path.starts_with("~/")) return context.home + path.substr(1);
  return path.starts_with("/") ? path : context.directory + "/" + path;
}

bool is_power_of_two(std::uint64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// ---- [job]

void read_hosts(TableReader& reader, const toml::table* table, JobSection& job) {
  const auto* node = reader.find("hosts");
  if (node == nullptr) return;
  if (const auto number = node->value_exact<std::int64_t>(); number && *number > 0) {
    job.hosts_min = job.hosts_max = static_cast<std::uint32_t>(*number);
    return;
  }
  const auto text = node->value_exact<std::string>().value_or("");
  unsigned low = 0, high = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%u..%u%c", &low, &high, &rest) == 2 && low > 0 && low <= high) {
    job.hosts_min = low;
    job.hosts_max = high;
    return;
  }
  reader.wrong(*table->get("hosts"), "hosts", "is no number of hosts", "expected 4 or \"2..4\"");
}

void read_job(const toml::table* table, Problems& problems, JobSection& job) {
  TableReader reader(table, "job", problems);
  reader.read("name", job.name);
  const bool good = !job.name.empty() && job.name.size() <= 64 && job.name.front() != '-' &&
                    job.name.front() != '.' &&
                    job.name.find_first_not_of(
                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789-_.") == std::string::npos;
  if (!good && reader.find("name") != nullptr) {
    reader.wrong(*reader.find("name"), "name", "cannot be a name",
                 "expected letters, digits, '-', '_' and '.', 64 at most");
  }
  read_hosts(reader, table, job);
  reader.read("start_timeout", job.start_timeout);
  reader.read("hosts_step", job.hosts_step, 1, 65'536);
  reader.one_of("bind", job.bind, {"numa", "none"});
  reader.finish();
}

// ---- [trainer]

void read_model(const toml::table* table, Problems& problems, ModelSection& model) {
  TableReader reader(table, "trainer.model", problems);
  reader.read("layers", model.layers, 1, 1024);
  reader.read("width", model.width, 1, 65'536);
  reader.read("heads", model.heads, 1, 1024);
  reader.read("context", model.context, 1, 1U << 20U);
  reader.finish();
  if (model.width % model.heads != 0) {
    problems.add(table == nullptr ? toml::source_region{} : table->source(),
                 "`trainer.model.width` " + std::to_string(model.width) +
                     " is no multiple of `heads` " + std::to_string(model.heads));
  }
}

void read_betas(TableReader& reader, TrainerSection& trainer) {
  const auto* node = reader.find("betas");
  if (node == nullptr) return;
  const auto* array = node->as_array();
  bool good = array != nullptr && array->size() == 2;
  for (std::size_t i = 0; good && i < 2; ++i) {
    const auto value = array->get(i)->value<double>();
    good = value && *value >= 0 && *value < 1;
    if (good) trainer.betas.at(i) = *value;
  }
  if (!good) reader.wrong(*node, "betas", "are no two numbers", "expected [0.9, 0.95]");
}

void read_trainer(const toml::table* table, Problems& problems, const TrainContext& context,
                  TrainerSection& trainer) {
  TableReader reader(table, "trainer", problems);
  reader.one_of("strategy", trainer.strategy, {"ddp"}, {"fsdp", "hsdp"});
  reader.read("steps", trainer.steps, 1, std::uint64_t{1} << 40U);
  reader.read("logical_batches", trainer.logical_batches, 1, 1U << 20U);
  if (trainer.logical_batches != 0 && !is_power_of_two(trainer.logical_batches)) {
    reader.wrong(*reader.find("logical_batches"), "logical_batches", "is no power of two",
                 "expected 1, 2, 4, 8, …: gradients are summed as a binary tree");
  }
  reader.read("micro_batch", trainer.micro_batch, 1, 1U << 20U);
  reader.read("learning_rate", trainer.learning_rate, 0, 1000);
  reader.read("seed", trainer.seed, 0, std::uint64_t{1} << 62U);
  reader.read("warmup_steps", trainer.warmup_steps, 0, std::uint64_t{1} << 40U);
  reader.read("weight_decay", trainer.weight_decay, 0, 1000);
  reader.read("clip", trainer.clip, 0, 1e9);
  read_betas(reader, trainer);
  reader.refuse("validate_every", "off");
  reader.refuse("shard_size");
  std::string reduction = "ordered";
  reader.one_of("reduction", reduction, {"ordered"}, {"fast"});
  read_model(reader.table("model"), problems, trainer.model);
  const auto* data_table = reader.table("data");
  TableReader data(data_table, "trainer.data", problems);
  data.read("text", trainer.text);
  data.refuse("tokens");
  data.finish();
  reader.finish();
  if (trainer.text.empty()) {
    problems.add(data_table == nullptr ? table->source() : data_table->source(),
                 "`trainer.data.text` is missing", "expected text = \"kjv.txt\"");
  } else {
    trainer.text = absolute(trainer.text, context);
  }
}

// ---- [program]

void read_variables(TableReader& reader, ProgramSection& program) {
  const auto* variables = reader.table("environment");
  if (variables == nullptr) return;
  for (const auto& [key, node] : *variables) {
    const std::string name(key.str());
    const auto value = node.value_exact<std::string>();
    if (!value || name.find('=') != std::string::npos) {
      reader.wrong(node, "environment." + name, "is no text", "expected a string in quotes");
    } else {
      program.environment[name] = *value;
    }
  }
}

void check_placeholders(TableReader& reader, const ProgramSection& program) {
  const std::vector<std::string> known = {"rank", "local_rank", "world_size", "local_world_size",
                                          "host", "generation", "job"};
  for (const auto& word : program.command) {
    for (auto at = word.find("${"); at != std::string::npos; at = word.find("${", at + 2)) {
      const auto end = word.find('}', at);
      const auto name = word.substr(at + 2, end == std::string::npos ? end : end - at - 2);
      if (end != std::string::npos && std::find(known.begin(), known.end(), name) != known.end()) {
        continue;
      }
      reader.wrong(*reader.find("command"), "command", "has an unknown ${" + name + "}",
                   "expected ${rank}, ${local_rank}, ${world_size}, ${local_world_size}, ${host}, "
                   "${generation} or ${job}");
    }
  }
}

void read_program(const toml::table* table, Problems& problems, const TrainContext& context,
                  ProgramSection& program) {
  TableReader reader(table, "program", problems);
  program.directory = context.directory;
  program.inherit = kInherit;
  reader.read("command", program.command);
  if (program.command.empty() || program.command.front().empty()) {
    problems.add(table->source(), "`program.command` is missing or empty",
                 "expected command = [\"python3\", \"train.py\"]");
  }
  check_placeholders(reader, program);
  std::string directory;
  reader.read("directory", directory);
  if (!directory.empty()) program.directory = absolute(directory, context);
  read_variables(reader, program);
  reader.read("inherit", program.inherit);
  reader.read("wrap", program.wrap);
  reader.read("step_pattern", program.step_pattern);
  if (!program.step_pattern.empty()) {
    try {
      const std::regex pattern(program.step_pattern);
      if (pattern.mark_count() == 0) {
        reader.wrong(*reader.find("step_pattern"), "step_pattern", "has no group",
                     "expected the step in brackets, like 'step (\\d+)'");
      }
    } catch (const std::regex_error& error) {
      reader.wrong(*reader.find("step_pattern"), "step_pattern",
                   std::string("is no regular expression (") + error.what() + ")", "");
    }
  }
  reader.read("checkpoint_glob", program.checkpoint_glob);
  if (!program.checkpoint_glob.empty()) {
    program.checkpoint_glob = absolute(program.checkpoint_glob, context);
  }
  reader.finish();
}

// ---- [checkpoint], [recovery], [health]

void read_every(TableReader& reader, CheckpointSection& checkpoint) {
  const auto* node = reader.find("every");
  if (node == nullptr) return;
  const auto text = node->value_exact<std::string>().value_or("");
  unsigned long long steps = 0;
  char rest = 0;
  const bool in_steps = std::sscanf(text.c_str(), "%llu step%c", &steps, &rest) >= 1 &&
                        (text.ends_with(" steps") || text.ends_with(" step")) && steps > 0;
  if (text == "auto") {
    checkpoint.every = EveryAuto{};
  } else if (in_steps) {
    checkpoint.every = EverySteps{steps};
  } else if (const auto duration = parse_duration(text); duration && *duration >= 1s) {
    checkpoint.every = EveryTime{*duration};
  } else {
    reader.wrong(*node, "every", "is no interval",
                 "expected \"auto\", \"100 steps\" or \"10 min\"");
  }
}

void read_checkpoint(const toml::table* table, Problems& problems, const TrainContext& context,
                     bool trainer, TrainFile& file) {
  auto& checkpoint = file.checkpoint;
  TableReader reader(table, "checkpoint", problems);
  std::string directory = trainer ? "checkpoints" : "";
  reader.read("directory", directory);
  if (!directory.empty()) checkpoint.directory = absolute(directory, context);
  if (!trainer && table != nullptr) {
    for (const auto& [key, node] : *table) {
      if (key.str() == "directory") continue;
      (void)reader.find(key.str());
      reader.wrong(node, key.str(), "has no effect with [program]", "");
    }
  }
  std::string storage = "shared";
  if (trainer) {
    reader.one_of("storage", storage, {"shared"}, {"local"});
    read_every(reader, checkpoint);
    reader.read("keep", checkpoint.keep, 1, 1'000'000);
    std::string resume = "auto";
    reader.one_of("resume", resume, {"auto"});
    reader.read("memory", checkpoint.memory);
    reader.read("replicas", file.replicas, 0, 1);
    if (table != nullptr && table->contains("memory") && checkpoint.memory) {
      file.notices.emplace_back(
          "[checkpoint] memory: not available yet, it is off; what is lost is what came after the "
          "newest checkpoint on disk");
    }
  }
  reader.finish();
}

void read_recovery(const toml::table* table, Problems& problems, RecoverySection& recovery) {
  TableReader reader(table, "recovery", problems);
  reader.read("spare_first", recovery.spare_first);
  reader.read("wait_for_host", recovery.wait_for_host);
  TableReader restarts(reader.table("restarts"), "recovery.restarts", problems);
  restarts.read("process", recovery.restarts, 0, 1'000'000);
  restarts.read("window", recovery.restarts_window);
  restarts.finish();
  reader.read("no_progress_generations", recovery.no_progress_generations, 1, 1'000'000);
  reader.read("stop_grace", recovery.stop_grace);
  reader.read("lease", recovery.lease);
  std::string on_lease_end = "stop";
  reader.one_of("on_lease_end", on_lease_end, {"stop", "keep"});
  recovery.stop_on_lease_end = on_lease_end == "stop";
  std::string exact = "report";
  reader.one_of("exact", exact, {"report"}, {"require"});
  reader.read("quarantine", recovery.quarantine);
  reader.read("partition_grace", recovery.partition_grace);
  reader.read("readmit", recovery.readmit);
  reader.read("abort_deadline", recovery.abort_deadline);
  std::string straggler = "report";
  reader.one_of("straggler", straggler, {"report"}, {"replace"});
  reader.finish();
}

void read_health(const toml::table* table, Problems& problems, HealthSection& health) {
  TableReader reader(table, "health", problems);
  reader.read("heartbeat", health.heartbeat);
  reader.read("lost_after", health.lost_after);
  reader.read("hang_floor", health.hang_floor);
  reader.read("start_limit", health.start_limit);
  reader.read("checkpoint_limit", health.checkpoint_limit);
  reader.refuse("evaluation_limit");
  reader.refuse("link_window", "auto");
  reader.finish();
  if (health.heartbeat < 10ms || health.heartbeat > 1min) {
    problems.add(table->source(), "`health.heartbeat` is out of range", "expected 10 ms to 1 min");
  }
  if (health.lost_after && *health.lost_after < 3 * health.heartbeat) {
    problems.add(table->source(), "`health.lost_after` is below three heartbeats",
                 "expected at least " + format_duration(3 * health.heartbeat));
  }
}

// ---- --set

/// "job.name=x" into the tree; the value is TOML, else a text.
void override_key(toml::table& root, const std::string& set, Problems& problems) {
  const auto equals = set.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.add("--set " + set + " is no override", "expected --set job.name=x");
    return;
  }
  const auto path = set.substr(0, equals);
  const auto value = set.substr(equals + 1);
  auto* table = &root;
  std::size_t begin = 0;
  for (auto dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    const auto part = path.substr(begin, dot - begin);
    auto [entry, made] = table->insert(part, toml::table{});
    table = entry->second.as_table();
    if (table == nullptr) {
      problems.add("--set " + set + ": `" + path.substr(0, dot) + "` is no table");
      return;
    }
    begin = dot + 1;
  }
  const auto key = path.substr(begin);
  try {
    auto parsed = toml::parse("value = " + value);
    table->insert_or_assign(key, *parsed.get("value"));
  } catch (const toml::parse_error&) {
    table->insert_or_assign(key, value);
  }
}

}  // namespace

TrainOrProblems parse_train(std::string_view text, const TrainContext& context) {
  Problems problems(context.file);
  auto root = parse_toml(text, context.file, problems);
  if (!root) return problems.take();
  for (const auto& set : context.set) override_key(*root, set, problems);
  TrainFile file;
  TableReader reader(&*root, "", problems);
  const auto slash = context.directory.rfind('/');
  const auto folder = slash == std::string::npos ? "" : context.directory.substr(slash + 1);
  const bool usable = !folder.empty() && folder.size() <= 64 && folder.front() != '.' &&
                      folder.find_first_of(" \t:/") == std::string::npos;
  if (usable) file.job.name = folder;
  read_job(reader.table("job"), problems, file.job);
  const auto* trainer = reader.table("trainer");
  const auto* program = reader.table("program");
  if ((trainer == nullptr) == (program == nullptr)) {
    problems.add("there is " + std::string(trainer == nullptr ? "neither" : "both") +
                     " [trainer] and [program]",
                 "expected exactly one of them");
  }
  if (trainer != nullptr) read_trainer(trainer, problems, context, file.trainer.emplace());
  if (program != nullptr) read_program(program, problems, context, file.program.emplace());
  read_checkpoint(reader.table("checkpoint"), problems, context, program == nullptr, file);
  read_recovery(reader.table("recovery"), problems, file.recovery);
  read_health(reader.table("health"), problems, file.health);
  reader.finish();
  if (!problems.empty()) return problems.take();
  return file;
}

std::map<std::string, std::string> inherited(const std::map<std::string, std::string>& environment,
                                             const std::vector<std::string>& patterns) {
  std::map<std::string, std::string> chosen;
  for (const auto& [name, value] : environment) {
    for (const auto& pattern : patterns) {
      const bool beginning =
          pattern.ends_with('*') &&
          name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
      if (beginning || name == pattern) chosen[name] = value;
    }
  }
  return chosen;
}

}  // namespace dlaunch::launcher::config
