#include "launcher/controller/setting.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/overloaded.h"
#include "protocol/json_text.h"
#include "protocol/token_paths.h"
#include "supervisor/job/checkpoints.h"

namespace dlaunch::launcher::controller {
namespace {

using config::HostSpec;
using config::Transport;
using nlohmann::json;

constexpr nanoseconds kSuccessorSlack = 300ms;  // fork, TLS and hello, on a busy host
constexpr nanoseconds kLeaseTrainer = 60s;
constexpr nanoseconds kLeaseProgram = 10s;
constexpr nanoseconds kHangFloorTrainer = 60s;
constexpr nanoseconds kHangFloorProgram = 10min;
// One core of the controller serves 40,000 frames a second with room to spare.
constexpr nanoseconds kHeartbeatPerHost = 25us;

std::uint32_t in_milliseconds(nanoseconds duration) {
  return static_cast<std::uint32_t>(duration / 1ms);
}

struct Count {
  std::uint32_t regular = 0, min = 0, max = 0;
};

Result<Count> count_hosts(const JobFiles& files) {
  Count count;
  for (const auto& host : files.hosts.hosts) count.regular += host.spare ? 0 : 1;
  const auto all = static_cast<std::uint32_t>(files.hosts.hosts.size());
  count.max = files.train.job.hosts_max == 0 ? count.regular : files.train.job.hosts_max;
  count.min = files.train.job.hosts_min == 0 ? count.max : files.train.job.hosts_min;
  if (count.max == 0 || count.min > all) {
    return failure(std::error_code(), "[job] hosts wants at least " + std::to_string(count.min) +
                                          " hosts, the hosts file has " + std::to_string(all) +
                                          (count.max == 0 ? ", all of them spares" : "") +
                                          "; add hosts or lower the minimum in train.toml");
  }
  count.max = std::min(count.max, all);
  return count;
}

/// Of whole copies of the state (HSDP), where all hosts have the same number of workers and say so.
Result<std::uint32_t> hosts_step(const JobFiles& files, const Count& count) {
  const auto& train = files.train;
  const auto& hosts = files.hosts.hosts;
  const auto workers = hosts.front().workers;
  const bool alike = std::ranges::all_of(
      hosts, [&](const config::HostSpec& host) { return host.workers == workers; });
  const auto shard = train.trainer ? train.trainer->shard_size : 0;
  if (shard == 0 || !workers || !alike) return train.job.hosts_step;
  const auto of_a_copy = std::lcm(*workers, shard) / *workers;
  const auto step = std::lcm(train.job.hosts_step, of_a_copy);
  // More hosts than whole copies have wait as spares do.
  if (of_a_copy == 1 || count.min % step == 0) return step;
  return failure(std::error_code(),
                 "with [trainer] shard_size = " + std::to_string(shard) + " and " +
                     std::to_string(*workers) + " workers a host, hosts come in multiples of " +
                     std::to_string(step) + ", and this job needs at least " +
                     std::to_string(count.min) +
                     "; set [job] hosts to such a number, or another shard_size");
}

/// What the ranks may come to, where "auto" counts as one.
std::uint64_t ranks_max(const JobFiles& files, std::uint32_t hosts_max) {
  std::vector<std::uint32_t> workers;
  for (const auto& host : files.hosts.hosts) workers.push_back(host.workers.value_or(1));
  std::sort(workers.rbegin(), workers.rend());
  std::uint64_t ranks = 0;
  for (std::size_t i = 0; i < workers.size() && i < hosts_max; ++i) ranks += workers[i];
  return ranks;
}

std::string trainer_settings(const config::TrainFile& train) {
  const auto& trainer = *train.trainer;
  const auto* steps = std::get_if<config::EverySteps>(&train.checkpoint.every);
  nlohmann::json settings = {{"strategy", trainer.strategy},
                             {"steps", trainer.steps},
                             {"micro_batch", trainer.micro_batch},
                             {"learning_rate", trainer.learning_rate},
                             {"seed", trainer.seed},
                             {"warmup_steps", trainer.warmup_steps},
                             {"weight_decay", trainer.weight_decay},
                             {"clip", trainer.clip},
                             {"betas", trainer.betas},
                             {"precision", trainer.precision},
                             {"device", trainer.device},
                             {"activation_checkpointing", trainer.activation_checkpointing},
                             {"prefetch", trainer.prefetch},
                             {"shard_size", trainer.shard_size},
                             {"check_collectives", trainer.check_collectives},
                             {"connections", trainer.connections},
                             {"model",
                              {{"layers", trainer.model.layers},
                               {"width", trainer.model.width},
                               {"heads", trainer.model.heads},
                               {"context", trainer.model.context},
                               {"vocabulary", trainer.model.vocabulary}}},
                             {"data", {{"validation", trainer.validation}}},
                             {"validate_every_steps", trainer.validate_every_steps},
                             {"schedule", trainer.schedule},
                             {"checkpoint_every_steps", steps == nullptr ? 0 : steps->steps},
                             {"threads", 1}};
  if (trainer.schedule == "cosine") {
    settings["min_learning_rate"] = trainer.min_learning_rate;
    settings["decay_steps"] = trainer.decay_steps == 0 ? trainer.steps : trainer.decay_steps;
  }
  const bool text = trainer.tokens.empty();
  settings["data"][text ? "text" : "tokens"] = text ? trainer.text : trainer.tokens;
  if (!trainer.weights.empty()) settings["weights"] = trainer.weights;
  // Left to the checkpoint, or to the ranks that there are at the start.
  if (trainer.logical_batches != 0) settings["logical_batches"] = trainer.logical_batches;
  return protocol::json_text(settings);
}

std::string trainer_path(const JobInput& input) {
  return input.program_folder + "/dlaunch-trainer";
}

/// The one with the tokens first: its hash is kept with each checkpoint.
std::vector<std::string> token_files(const config::TrainerSection& trainer) {
  if (trainer.tokens.empty()) return {trainer.text};
  if (!protocol::is_index_path(trainer.tokens)) return {trainer.tokens};
  return {protocol::ids_path(trainer.tokens), trainer.tokens};
}

std::vector<std::string> data_files(const config::TrainerSection& trainer) {
  auto files = token_files(trainer);
  if (!trainer.weights.empty()) files.push_back(trainer.weights);
  return files;
}

void add_check(protocol::JobSpec& spec, const char* check, const std::string& path,
               protocol::PathCheck::Kind kind, bool hash) {
  auto& added = *spec.add_checks();
  added.set_check(check);
  added.set_path(path);
  added.set_kind(kind);
  added.set_hash(hash);
}

protocol::JobSpec job_spec(const JobInput& input, const JobFiles& files, const Setting& setting,
                           const std::string& program_path) {
  const auto& train = files.train;
  protocol::JobSpec spec;
  spec.set_name(train.job.name);
  spec.set_trainer(train.trainer.has_value());
  spec.set_checkpoint_directory(train.checkpoint.directory);
  spec.set_stop_grace_ms(in_milliseconds(train.recovery.stop_grace));
  spec.set_restarts_max(train.recovery.restarts);
  spec.set_port_first(files.hosts.network.port_first);
  spec.set_port_last(files.hosts.network.port_last);
  spec.set_set_socket_interfaces(
      std::any_of(files.hosts.hosts.begin(), files.hosts.hosts.end(), [](const HostSpec& host) {
        return !host.data_address.empty() || !host.data_interface.empty();
      }));
  auto environment = input.environment;
  if (train.trainer) {
    spec.add_command(trainer_path(input));
    spec.set_directory(input.train.directory);
    spec.set_trainer_settings(setting.job.trainer_settings);
    add_check(spec, "trainer", trainer_path(input), protocol::PathCheck::EXECUTABLE, true);
    for (const auto& path : data_files(*train.trainer)) {
      add_check(spec, "data", path, protocol::PathCheck::FILE, true);
    }
  } else {
    const auto& program = *train.program;
    for (const auto& word : program.command) spec.add_command(word);
    spec.set_directory(program.directory);
    for (const auto& word : program.wrap) spec.add_wrap(word);
    spec.set_step_pattern(program.step_pattern);
    spec.set_checkpoint_glob(program.checkpoint_glob);
    environment = config::inherited(input.environment, program.inherit);
    for (const auto& [name, value] : program.environment) environment[name] = value;
    add_check(spec, "directory", program.directory, protocol::PathCheck::DIRECTORY, false);
    if (!program_path.empty()) {
      add_check(spec, "program", program_path, protocol::PathCheck::EXECUTABLE, true);
    }
  }
  spec.mutable_environment()->insert(environment.begin(), environment.end());
  return spec;
}

std::string endpoint_of(const HostSpec& host) {
  if (host.transport == Transport::local) return "local:" + host.name;
  if (!host.jump.empty()) return "jump:" + host.jump;
  return host.address + ":" + std::to_string(host.port);
}

void fill_hosts(const JobFiles& files, Setting& setting) {
  std::uint32_t number = 0;
  for (const auto& host : files.hosts.hosts) {
    const HostId id{number++};
    setting.launch.hosts.push_back({id, host.name, endpoint_of(host)});
    setting.rendezvous.hosts.push_back({id, host.name, host.spare});
    setting.job.host_names[id] = host.name;
    if (host.workers || !host.trainer.empty() || host.expect.gpus > 0) {
      setting.host_wishes[id] = {host.workers.value_or(0), host.trainer, host.expect.gpus};
    }
  }
}

void fill_job(const JobInput& input, const config::TrainFile& train, supervisor::job::Policy& job) {
  job.job_id = input.id;
  job.job_name = train.job.name;
  job.trainer = train.trainer.has_value();
  job.steps = train.trainer ? train.trainer->steps : 0;
  job.checkpoint_directory = train.checkpoint.directory;
  job.every = std::visit(
      Overloaded{[](const config::EveryAuto&) -> supervisor::job::CheckpointEvery {
                   return supervisor::job::EveryAuto{};
                 },
                 [](const config::EverySteps& every) -> supervisor::job::CheckpointEvery {
                   return supervisor::job::EverySteps{every.steps};
                 },
                 [](const config::EveryTime& every) -> supervisor::job::CheckpointEvery {
                   return supervisor::job::EveryTime{every.interval};
                 }},
      train.checkpoint.every);
  job.keep = train.checkpoint.keep;
  job.fresh = input.fresh;
  job.process_restarts_max = train.recovery.restarts;
  job.restarts_window = train.recovery.restarts_window;
  job.no_progress_generations = train.recovery.no_progress_generations;
  job.wait_for_host = train.recovery.wait_for_host;
  job.stop_grace = train.recovery.stop_grace;
  job.lease = train.recovery.lease.value_or(job.trainer ? kLeaseTrainer : kLeaseProgram);
  job.abort_deadline = train.recovery.abort_deadline;
  job.readmit = train.recovery.readmit;
  job.has_steps = job.trainer || !train.program->step_pattern.empty() ||
                  !train.program->checkpoint_glob.empty();
  job.hang_floor =
      train.health.hang_floor.value_or(job.trainer ? kHangFloorTrainer : kHangFloorProgram);
  job.start_limit = train.health.start_limit;
  job.checkpoint_limit = train.health.checkpoint_limit;
  job.link_window = train.health.link_window.value_or(job.link_window);
}

}  // namespace

Result<Setting> make_setting(const JobInput& input, const JobFiles& files,
                             Surroundings surroundings) {
  const auto count = count_hosts(files);
  if (!count) return tl::unexpected(count.error());
  const auto step = hosts_step(files, *count);
  if (!step) return tl::unexpected(step.error());
  const auto& train = files.train;
  Setting setting;
  setting.incarnation = surroundings.incarnation;
  setting.recovered = surroundings.recovered;
  fill_hosts(files, setting);
  fill_job(input, train, setting.job);
  if (train.trainer) {
    setting.job.trainer_settings = trainer_settings(train);
    if (train.trainer->logical_batches == 0) {
      setting.job.logical_batches_min =
          supervisor::job::default_logical_batches(ranks_max(files, count->max));
    }
  }

  auto& rendezvous = setting.rendezvous;
  rendezvous.hosts_min = count->min;
  rendezvous.hosts_max = count->max;
  rendezvous.hosts_step = *step;
  rendezvous.lost_after = train.health.lost_after.value_or(
      train.trainer ? config::kLostAfterTrainer : config::kLostAfterProgram);
  const auto hosts = static_cast<std::int64_t>(files.hosts.hosts.size());
  setting.heartbeat = std::min(std::max(train.health.heartbeat, hosts * kHeartbeatPerHost),
                               rendezvous.lost_after / config::kHeartbeatsPerLostAfter);
  rendezvous.heartbeat = setting.heartbeat;
  // A host whose processes are all dead is given up about as soon as a silent one.
  rendezvous.successor_limit =
      std::min(rendezvous.successor_limit, rendezvous.lost_after + kSuccessorSlack);
  rendezvous.partition_grace = train.recovery.partition_grace;
  rendezvous.readmit = surroundings.resumed ? nanoseconds(0) : train.recovery.readmit;
  rendezvous.start_timeout = train.job.start_timeout;
  rendezvous.spare_first = train.recovery.spare_first;
  rendezvous.quarantine = train.recovery.quarantine;
  setting.launch.connect_timeout = files.hosts.network.connect_timeout;
  setting.agents_dial = files.hosts.network.control != "ssh";

  setting.welcome.set_heartbeat_ms(std::max(in_milliseconds(setting.heartbeat), 1U));
  setting.welcome.set_lease_ms(in_milliseconds(setting.job.lease));
  setting.welcome.set_lost_after_ms(in_milliseconds(rendezvous.lost_after));
  setting.welcome.set_stop_on_lease_end(train.recovery.stop_on_lease_end);
  *setting.welcome.mutable_job() = job_spec(input, files, setting, surroundings.program_path);
  return setting;
}

}  // namespace dlaunch::launcher::controller
