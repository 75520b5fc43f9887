// A free port for a program's rendezvous.
#pragma once

#include <cstdint>
#include <string>

namespace dlaunch::supervisor::host {

/// Both ends belong to it; first 0: any port that the kernel has.
struct PortRange {
  std::uint32_t first = 0, last = 0;
};

/// A port on which nobody listens at this moment, another than `before` where there is one. Taken
/// from the upper half first: controllers begin in the lower one. 0: there is none.
[[nodiscard]] std::uint32_t pick_port(const std::string& address, PortRange range,
                                      std::uint32_t before);

}  // namespace dlaunch::supervisor::host
