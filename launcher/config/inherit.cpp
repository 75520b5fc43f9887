// Which variables of the user's shell a job takes along.
#include <algorithm>

#include "launcher/config/train_file.h"

namespace dlaunch::launcher::config {

std::vector<std::string> default_inherit() {
  return {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_*"};
}

std::map<std::string, std::string> inherited(const std::map<std::string, std::string>& environment,
                                             const std::vector<std::string>& patterns) {
  std::map<std::string, std::string> chosen;
  for (const auto& [name, value] : environment) {
    const bool wanted =
        std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
          return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                        : name == pattern;
        });
    if (wanted) chosen.emplace(name, value);
  }
  return chosen;
}

}  // namespace dlaunch::launcher::config
