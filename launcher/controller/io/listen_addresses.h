// Where the controller listens: the local addresses by the routes to its hosts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/config/hosts_file.h"

namespace dlaunch::launcher::controller {

struct ListenAddresses {
  std::vector<std::string> bind;                 ///< numeric, without doubles
  std::vector<std::string> announce;             ///< what a remote host may dial
  std::map<std::string, std::string> likeliest;  ///< by HostSpec::address, where it is known
};

/// Loopback for local hosts; for others what the kernel would send from, or all addresses of this
/// machine where a name has none yet (an alias of SSH's settings). `controller_address` goes before
/// all of it.
[[nodiscard]] Result<ListenAddresses> find_listen_addresses(const config::HostsFile& hosts);

/// Where a process of this machine reaches the port.
[[nodiscard]] std::string own_listener(const ListenAddresses& addresses);

/// What this host dials, in order.
[[nodiscard]] std::vector<std::string> candidates(const ListenAddresses& addresses,
                                                  const config::HostSpec& host);

}  // namespace dlaunch::launcher::controller
