// The one way from a path of the command line to the text of a configuration file.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace dlaunch::launcher::config {

/// All of a regular file of at most `bytes_max` bytes. The error says which file, why not, and what
/// to do about it.
[[nodiscard]] Result<std::string> read_config_file(const std::string& path, std::size_t bytes_max);

}  // namespace dlaunch::launcher::config
