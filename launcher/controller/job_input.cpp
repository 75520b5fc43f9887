#include "launcher/controller/job_input.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/config/together.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::controller {

using nlohmann::json;

std::string to_json(const JobInput& input) {
  const json object = {{"id", input.id},
                       {"hosts_file", input.hosts_file},
                       {"hosts_text", input.hosts_text},
                       {"allocation", input.allocation},
                       {"train_text", input.train_text},
                       {"train_file", input.train.file},
                       {"train_directory", input.train.directory},
                       {"home", input.train.home},
                       {"set", input.train.set},
                       {"environment", input.environment},
                       {"program_folder", input.program_folder},
                       {"fresh", input.fresh}};
  return protocol::json_text(object, 1) + "\n";
}

Result<JobInput> job_input_from_json(std::string_view text) {
  const auto object = protocol::read_json(text);
  JobInput input;
  const auto take = [&object](const char* key, auto& value) {
    const auto found = object.find(key);
    if (found == object.end()) return false;
    try {
      found->get_to(value);
    } catch (const json::exception&) {
      return false;
    }
    return true;
  };
  const bool whole =
      object.is_object() && take("id", input.id) && take("hosts_file", input.hosts_file) &&
      take("hosts_text", input.hosts_text) && take("allocation", input.allocation) &&
      take("train_text", input.train_text) && take("train_file", input.train.file) &&
      take("train_directory", input.train.directory) && take("home", input.train.home) &&
      take("set", input.train.set) && take("environment", input.environment) &&
      take("program_folder", input.program_folder) && take("fresh", input.fresh);
  if (!whole) {
    return failure(std::errc::bad_message, std::string("reading ") + kJobInputFile +
                                               " of the job: it is damaged or of another dlaunch");
  }
  return input;
}

Result<JobFiles> parse_files(const JobInput& input) {
  JobFiles files;
  std::vector<config::Problem> problems;
  const auto keep = [&problems](auto parsed, auto& place) {
    if (auto* found = std::get_if<std::vector<config::Problem>>(&parsed)) {
      problems.insert(problems.end(), found->begin(), found->end());
    } else {
      place = std::get<0>(std::move(parsed));
    }
  };
  if (!input.allocation.empty()) {
    keep(config::hosts_of_slurm(input.allocation), files.hosts);
  } else if (!input.hosts_file.empty()) {
    keep(config::parse_hosts(input.hosts_text, input.hosts_file), files.hosts);
  } else {
    files.hosts = config::this_machine();
  }
  keep(config::parse_train(input.train_text, input.train), files.train);
  if (problems.empty()) {
    problems = config::check_together(files.hosts, files.train, input.train.file);
  }
  if (problems.empty()) return files;
  return failure(std::error_code(), config::to_text(std::move(problems)));
}

}  // namespace dlaunch::launcher::controller
