// What `dlaunch-agent plant` is told on its stdin: one JSON line, never on a command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::launcher::launch {

// An environment of a few dozen variables and 65,536 characters of PATH-like values fit.
constexpr std::size_t kBootstrapBytesMax = std::size_t{256} << 10;

struct ControllerAddress {
  std::string address;  ///< numeric
  std::uint16_t port = 0;
};

struct Bootstrap {
  std::string job;
  std::string host;
  HostId host_id;
  Incarnation incarnation;
  std::string build;
  std::string secret_hex;  ///< this host's derived key
  std::vector<ControllerAddress> addresses;
  std::string scratch;  ///< filled by the planter: `<scratch>/dlaunch-<uid>` on that host
  nanoseconds lease{};
  std::string on_lease_end;
  std::map<std::string, std::string> environment;
  std::string data_address;    ///< may be empty
  std::string data_interface;  ///< may be empty
};

/// Ends with the newline. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string to_line(const Bootstrap& bootstrap);

}  // namespace dlaunch::launcher::launch
