// What `--dry-run` prints: which ranks would run where.
#pragma once

#include <string>

#include "launcher/config/hosts_file.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::cli {

/// A table, or JSON; ranks are those of a start with all hosts there.
[[nodiscard]] std::string plan_text(const config::HostsFile& hosts, const config::TrainFile& train,
                                    bool as_json);

}  // namespace dlaunch::launcher::cli
