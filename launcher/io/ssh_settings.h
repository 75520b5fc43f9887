// The user's SSH settings for one host, as OpenSSH itself resolves them (`ssh -G`, no connection).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/io/deadline.h"

namespace dlaunch::launcher::io {

/// What the hosts file says; it goes before the user's configuration.
struct SshWish {
  std::string address;  ///< a Host pattern of the user's configuration may match it
  std::optional<std::uint16_t> port;
  std::string user;      ///< empty: not said
  std::string identity;  ///< empty: not said; else the only key that is tried
  std::string jump;      ///< empty: not said
};

struct SshSettings {
  std::string host_name;  ///< what is dialled
  std::uint16_t port = 22;
  std::string user;
  std::vector<std::string> identity_files;  ///< `~` expanded; may not exist
  bool identities_only = false;
  std::string identity_agent;            ///< path; empty: SSH_AUTH_SOCK; "none": not used
  std::vector<std::string> known_hosts;  ///< the user's files first, then the machine's
  std::string known_hosts_new;           ///< where a new key is added; empty: nowhere
  std::string host_key_alias;
  std::string proxy_command;  ///< for /bin/sh; empty: dialled directly
  std::string beyond_libssh;  ///< what of it only OpenSSH can do, in words; empty: nothing
};

/// How strictly host keys are checked is said by the hosts file alone, so StrictHostKeyChecking is
/// not read. `text`: the output of `ssh -G`; `home`: for `~`.
[[nodiscard]] SshSettings parse_settings(std::string_view text, const std::string& home);

struct SshText {
  std::string settings;  ///< the output of `ssh -G`
  std::string log;       ///< with -v: among others, which files it read
};
/// Runs `ssh -G`, or `ssh -v -G`. Fails as read_settings.
[[nodiscard]] Result<SshText> ask_ssh(const SshWish& wish, bool with_log, const Deadline& deadline);
/// The settings that this output of `ssh -G` means for the wish.
[[nodiscard]] Result<SshSettings> settings_from(const std::string& text, const SshWish& wish);

/// Runs `ssh -G`. Fails when there is no `ssh`, or it refuses its configuration.
[[nodiscard]] Result<SshSettings> read_settings(const SshWish& wish, const Deadline& deadline);

}  // namespace dlaunch::launcher::io
