// What an agent is planted with: one JSON line on its stdin, never on a command line or in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"

namespace dlaunch::protocol {

// An environment of a few dozen variables and PATH-like values of 65,536 characters fit.
constexpr std::size_t kBootstrapBytesMax = std::size_t{256} << 10U;

struct ControllerAddress {
  std::string address;  ///< numeric
  std::uint16_t port = 0;
};

/// How an agent's frames reach its controller.
enum class Control {
  automatic,  ///< it dials; where that does not work, over the connection that planted it
  dial,
  ssh,  ///< only over the connection that planted it
};
/// As in hosts.toml.
[[nodiscard]] std::optional<Control> control_named(const std::string& name);

struct Bootstrap {
  std::string job;
  std::string host;
  HostId host_id;
  Incarnation incarnation;
  std::string build;
  std::string secret_hex;                    ///< this host's derived key
  std::vector<ControllerAddress> addresses;  ///< with Control::ssh only to find the own address by
  Control control = Control::automatic;
  bool first = false;   ///< nothing of this job can be on the host yet
  std::string scratch;  ///< filled by the planter: `<scratch>/dlaunch-<uid>` on that host
  nanoseconds lease = 60s;
  bool stop_on_lease_end = true;
  std::map<std::string, std::string> environment;
  std::string data_address;        ///< may be empty
  std::string data_interface;      ///< may be empty
  bool login_environment = false;  ///< what a login on that host sets is for the workers, too

  /// `<scratch>/<job>/<host>`: several hosts may share a machine.
  [[nodiscard]] std::string directory() const { return scratch + "/" + job + "/" + host; }
};

/// Ends with the newline. Bytes that are not UTF-8 are replaced.
[[nodiscard]] std::string to_line(const Bootstrap& bootstrap);
/// An error names the key that is missing or wrong, never a value.
[[nodiscard]] Result<Bootstrap> parse_bootstrap(const std::string& line);

}  // namespace dlaunch::protocol
