// When OpenSSH's settings for one host are those of another too: a cluster's hosts rarely differ,
// and every `ssh -G` costs as much CPU time as half a login.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::launcher::launch {

/// What `ssh -v -G <host>` said.
struct SshAnswer {
  std::string host;                     ///< as it was asked for
  std::string settings;                 ///< its stdout
  std::vector<std::string> host_lines;  ///< patterns of every Host line of the files it read
  bool can_be_shared = false;           ///< false: a Match, or something that is not understood
};

/// The configuration files it says that it read; nullopt: this is not OpenSSH's log.
[[nodiscard]] std::optional<std::vector<std::string>> files_read(std::string_view log);

/// Adds the Host lines of a file. False: it has what may tell hosts apart in other ways.
[[nodiscard]] bool add_host_lines(std::string_view file, std::vector<std::string>& host_lines);

/// Whether OpenSSH's pattern list ("gpu* !gpu07") means this host.
[[nodiscard]] bool matches(std::string_view patterns, std::string_view host);

/// What `ssh -G` would say of this host; nullopt: it has to be asked.
[[nodiscard]] std::optional<std::string> settings_for(const SshAnswer& answer,
                                                      const std::string& host);

}  // namespace dlaunch::launcher::launch
