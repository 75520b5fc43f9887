#include "supervisor/host/io/carrier.h"

#include <cstdlib>
#include <utility>

#include "base/io/files.h"

namespace dlaunch::supervisor::host {

std::vector<bool> Carrier::look(const std::string& interface) {
  if (interface.empty()) return {};
  const auto place = directory_ + "/" + interface;
  const auto carrier = read_file(place + "/carrier", 8);
  const auto count = read_file(place + "/carrier_down_count", 32);
  const bool up = carrier && carrier->starts_with("1");
  std::optional<std::uint64_t> downs;
  if (count) downs = std::strtoull(count->c_str(), nullptr, 10);
  const auto before = std::exchange(downs_, downs);
  const bool was_up = std::exchange(up_, up);
  if (up && was_up && downs && before && *downs > *before) return {false, true};
  return {up};
}

}  // namespace dlaunch::supervisor::host
