// A free port for a program's rendezvous, and the way through the user's range to one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace dlaunch::supervisor::host {

/// Both ends belong to it; first 0: any port that the kernel has.
struct PortRange {
  std::uint32_t first = 0, last = 0;
};

/// The first port of the range for which `attempt` answers one; another than `before` where there
/// is one. Begins in the upper half: controllers begin in the lower one. 0: there is none.
[[nodiscard]] std::uint32_t find_port(PortRange range, std::uint32_t before,
                                      const std::function<std::uint32_t(std::uint32_t)>& attempt);

/// A port on which nobody listens at this moment.
[[nodiscard]] std::uint32_t pick_port(const std::string& address, PortRange range,
                                      std::uint32_t before);

}  // namespace dlaunch::supervisor::host
