// job.toml: the whole configuration of a job in one file, every key with the value in effect. It is
// kept with the run.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/config/hosts_file.h"
#include "launcher/config/problem.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::config {

struct Resolved {
  HostsFile hosts;
  TrainFile train;
  friend bool operator==(const Resolved&, const Resolved&) = default;
};

/// TOML that `read_resolved` reads back to the same, notices aside.
[[nodiscard]] std::string write_resolved(const Resolved& resolved);

/// `file` is only for problems.
[[nodiscard]] std::variant<Resolved, std::vector<Problem>> read_resolved(std::string_view text,
                                                                         const std::string& file);

}  // namespace dlaunch::launcher::config
