#include "supervisor/host/environment.h"

#include "protocol/placeholder.h"

namespace dlaunch::supervisor::host {
namespace {

std::string replace(std::string text, const std::map<std::string, std::string>& values) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = text.find("${", at);
    const auto end = begin == std::string::npos ? begin : text.find('}', begin);
    if (end == std::string::npos) return result + text.substr(at);
    const auto value = values.find(text.substr(begin + 2, end - begin - 2));
    result += text.substr(at, begin - at);
    result += value != values.end() ? value->second : text.substr(begin, end + 1 - begin);
    at = end + 1;
  }
  return result;
}

std::string value_of(protocol::Placeholder placeholder, const Place& place) {
  using enum protocol::Placeholder;
  switch (placeholder) {
    case rank:
      return std::to_string(place.rank.value);
    case local_rank:
      return std::to_string(place.local_rank);
    case world_size:
      return std::to_string(place.prepare.world_size());
    case local_world_size:
      return std::to_string(place.prepare.workers());
    case host:
      return place.host;
    case generation:
      return std::to_string(place.generation.value);
    case job:
      return place.job_id;
  }
  return "";
}

}  // namespace

std::map<std::string, std::string> make_environment(const protocol::JobSpec& job,
                                                    const Place& place) {
  std::map<std::string, std::string> environment(job.environment().begin(),
                                                 job.environment().end());
  const auto number = [](auto value) { return std::to_string(value); };
  const auto& prepare = place.prepare;
  const std::map<std::string, std::string> fixed = {
      {"RANK", number(place.rank.value)},
      {"LOCAL_RANK", number(place.local_rank)},
      {"GROUP_RANK", number(prepare.host_index())},
      {"ROLE_RANK", number(place.rank.value)},
      {"ROLE_NAME", "default"},
      {"LOCAL_WORLD_SIZE", number(prepare.workers())},
      {"WORLD_SIZE", number(prepare.world_size())},
      {"GROUP_WORLD_SIZE", number(prepare.hosts())},
      {"ROLE_WORLD_SIZE", number(prepare.world_size())},
      {"TORCHELASTIC_RESTART_COUNT", number(place.generation.value - 1)},
      {"TORCHELASTIC_MAX_RESTARTS", number(job.restarts_max())},
      {"TORCHELASTIC_RUN_ID", place.job_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"DLAUNCH_JOB", place.job_id},
      {"DLAUNCH_HOST", place.host},
      {"DLAUNCH_GENERATION", number(place.generation.value)},
      {"DLAUNCH_DATA_ADDRESS", place.data_address},
      {"DLAUNCH_CHECKPOINT_DIR", job.checkpoint_directory()},
  };
  for (const auto& [name, value] : fixed) environment[name] = value;
  if (place.master_port != 0) {
    environment["MASTER_ADDR"] = place.master_address;
    environment["MASTER_PORT"] = number(place.master_port);
  }
  if (job.trainer() && job.port_first() != 0) {
    environment["DLAUNCH_PORTS"] = number(job.port_first()) + "-" + number(job.port_last());
  }
  environment.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (prepare.workers() > 1) environment.try_emplace("OMP_NUM_THREADS", "1");
  if (job.set_socket_interfaces() && !place.data_interface.empty()) {
    environment.try_emplace("GLOO_SOCKET_IFNAME", place.data_interface);
    environment.try_emplace("NCCL_SOCKET_IFNAME", place.data_interface);
  }
  return environment;
}

std::vector<std::string> make_argv(const protocol::JobSpec& job, const Place& place) {
  std::map<std::string, std::string> values;
  for (const auto& [placeholder, name] : protocol::kPlaceholders) {
    values.emplace(name, value_of(placeholder, place));
  }
  std::vector<std::string> argv;
  for (const auto& word : job.wrap()) argv.push_back(replace(word, values));
  for (const auto& word : job.command()) argv.push_back(replace(word, values));
  return argv;
}

}  // namespace dlaunch::supervisor::host
