// What an agent is planted with: one JSON line on stdin, kept in memory only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace dlaunch::supervisor::host {

// An environment of a few dozen variables and PATH-like values of 65,536 characters fit.
constexpr std::size_t kBootstrapBytesMax = std::size_t{256} << 10U;

struct ControllerAddress {
  std::string address;  ///< numeric
  std::uint16_t port = 0;
};
struct Bootstrap {
  std::string job;
  std::string host;
  HostId host_id;
  std::string build;
  std::string secret_hex;
  std::vector<ControllerAddress> addresses;
  std::string scratch;  ///< `<scratch>/dlaunch-<uid>`
  nanoseconds lease = 60s;
  bool stop_on_lease_end = true;
  std::string data_address;
  std::string data_interface;

  /// `<scratch>/<job>/<host>`: several hosts may share a machine.
  [[nodiscard]] std::string directory() const { return scratch + "/" + job + "/" + host; }
};

/// An error names the key that is missing or wrong, never a value.
[[nodiscard]] Result<Bootstrap> parse_bootstrap(const std::string& line);

}  // namespace dlaunch::supervisor::host
