// What is wrong only when the two files are looked at together.
#pragma once

#include <string>
#include <vector>

#include "launcher/config/hosts_file.h"
#include "launcher/config/problem.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::config {

/// `file` is that of `train`. Hosts whose workers are "auto" count as one: how many they have is
/// known only later.
[[nodiscard]] std::vector<Problem> check_together(const HostsFile& hosts, const TrainFile& train,
                                                  const std::string& file);

}  // namespace dlaunch::launcher::config
