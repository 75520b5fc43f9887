#include "tests/fuzz/target.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace dlaunch::fuzz {
namespace {

constexpr std::array kTargets = {
    Target{"agent_frames", agent_frames},
    Target{"controller_frames", controller_frames},
    Target{"endpoints", endpoints},
    Target{"worker_lines", worker_lines},
    Target{"agent_lines", agent_lines},
    Target{"bootstrap_line", bootstrap_line},
    Target{"remote_talk", remote_talk},
    Target{"probes", probes},
    Target{"relay_requests", relay_requests},
    Target{"hosts_toml", hosts_toml},
    Target{"host_lines", host_lines},
    Target{"host_range", host_range},
    Target{"train_toml", train_toml},
    Target{"resolved_toml", resolved_toml},
    Target{"token_files", token_files},
    Target{"manifest", manifest},
    Target{"safetensors_header", safetensors_header},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& target_named(std::string_view name) {
  const auto* const found = std::find_if(kTargets.begin(), kTargets.end(),
                                         [&](const Target& each) { return each.name == name; });
  DL_CHECK(found != kTargets.end(), "a fuzz target has this name");
  return *found;
}

}  // namespace dlaunch::fuzz
