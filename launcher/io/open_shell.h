// Opens a shell on a host, over SSH or on this machine, as the hosts file says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/io/plant_failure.h"
#include "launcher/io/ssh_config.h"
#include "launcher/io/ssh_dial.h"
#include "launcher/io/start_shell.h"
#include "launcher/launch/user_text.h"

namespace dlaunch::launcher::io {

/// How a host is reached; texts that are empty were not given.
struct HostReach {
  std::string name;  ///< for sentences
  bool local = false;
  std::string address;  ///< unused when local, as is all below
  std::optional<std::uint16_t> port;
  std::string user;
  std::string identity;
  std::string jump;
  bool accept_new_host_keys = false;
  std::string ssh = "auto";  ///< or "libssh", "openssh": by what
};

/// What is known of the host before it is dialled, for the sentence of a failure.
[[nodiscard]] launch::Where where_of(const HostReach& reach);

/// Over libssh, or the OpenSSH client where libssh cannot serve.
/// `where` learns what SSH's settings make of the address; `notice` is told of an accepted host
/// key, of settings that are not honoured, and of why the client is used.
[[nodiscard]] Planting<std::unique_ptr<StartShell>> open_shell(
    const HostReach& reach, SshConfig& config, const Deadline& deadline, Interrupt& interrupt,
    launch::Where& where, const std::function<void(const std::string&)>& notice);

/// Letters and digits, different for each script: tells its lines from noise before them.
[[nodiscard]] std::string make_nonce();

}  // namespace dlaunch::launcher::io
