// hosts.toml as a TOML document that is parsed already; for the resolved file, which holds more.
#pragma once

#include <toml++/toml.h>

#include <set>
#include <string>

#include "launcher/config/hosts_file.h"
#include "launcher/config/section.h"

namespace dlaunch::launcher::config {

/// Problems go to `reading`; the result counts only when there are none.
[[nodiscard]] HostsFile read_hosts(const toml::table& document, Reading& reading);

/// "[host] name", "[network] ports", …: all keys that a hosts file may have.
[[nodiscard]] std::set<std::string> known_host_keys();

}  // namespace dlaunch::launcher::config
