// The user's known_hosts files: which keys a host may have, and adding a new one.
#pragma once

#include <libssh/libssh.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace dlaunch::launcher::io {

struct SshKeyDeleter {
  void operator()(ssh_key key) const { ssh_key_free(key); }
};
using SshKey = std::unique_ptr<ssh_key_struct, SshKeyDeleter>;

struct KnownKeys {
  std::vector<SshKey> good;
  std::vector<SshKey> revoked;
  bool has_authority = false;  ///< a @cert-authority line matches: libssh cannot check it
};

/// As known_hosts writes a host: "[name]:port" unless the port is 22.
[[nodiscard]] std::string known_hosts_name(const std::string& host, std::uint16_t port);

/// Files that do not exist are empty. Hashed names, patterns and @revoked are understood.
[[nodiscard]] KnownKeys read_known_keys(const std::vector<std::string>& files,
                                        const std::string& name);

enum class HostKeyVerdict { known, unknown, changed, revoked };
[[nodiscard]] HostKeyVerdict judge_host_key(const KnownKeys& known, ssh_key key);

/// The algorithms to ask for: those of known keys first, so that a server with several keys shows
/// the one we can check.
[[nodiscard]] std::string host_key_algorithms(const KnownKeys& known);

/// "SHA256:…"
[[nodiscard]] std::string fingerprint(ssh_key key);

/// Appends a line under a lock of the file, unless another process has added the key meanwhile;
/// makes the folder (0700) where it is missing. False: another key of the host was added meanwhile.
[[nodiscard]] Result<bool> add_known_key(const std::string& file, const std::string& name,
                                         ssh_key key);

}  // namespace dlaunch::launcher::io
