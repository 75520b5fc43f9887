// Everything a controller is started with: the files as the user wrote them, and where they count
// from. Kept in the state directory, so that a restarted controller and `resume` read the same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "launcher/config/hosts_file.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::controller {

struct JobInput {
  std::string id;
  std::string hosts_file;  ///< for problems; empty: this machine alone
  std::string hosts_text;
  /// Set for `--from slurm` instead of a file: the variables of the allocation.
  std::map<std::string, std::string> allocation;
  std::string train_text;
  config::TrainContext train;
  /// Of the shell that started the job, already chosen by `inherit`: nothing else of it is kept.
  std::map<std::string, std::string> environment;
  std::string program_folder;  ///< where dlaunch, the trainer and the agents' binaries are
  bool fresh = false;          ///< the checkpoint directory must be empty
};

/// The name in the state directory.
constexpr const char* kJobInputFile = "input.json";
constexpr std::size_t kJobInputBytesMax = 16 * 1024 * 1024;

[[nodiscard]] std::string to_json(const JobInput& input);
[[nodiscard]] Result<JobInput> job_input_from_json(std::string_view text);

/// The parsed files.
struct JobFiles {
  config::HostsFile hosts;
  config::TrainFile train;
};
/// The error holds every problem, one line each.
[[nodiscard]] Result<JobFiles> parse_files(const JobInput& input);

}  // namespace dlaunch::launcher::controller
