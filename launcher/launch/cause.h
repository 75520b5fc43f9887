// Why a host could not be planted: one name per cause a person can act on.
#pragma once

namespace dlaunch::launcher::launch {

enum class Cause {
  unresolved,            ///< the name has no address
  refused,               ///< nothing listens on the port
  silent,                ///< no answer in time
  closed_before_banner,  ///< accepted and dropped: MaxStartups, or not an SSH server
  host_key_unknown,
  host_key_changed,
  auth_refused,
  scratch_full,
  scratch_read_only,
  scratch_noexec,
  scratch_foreign,  ///< belongs to somebody else, or others may write to it
  wrong_architecture,
  cannot_dial_back,  ///< the agent runs but does not reach the controller
  agent_failed,      ///< the agent or the start script ended with something unexpected
  ssh_config,        ///< the user's SSH settings cannot be read or carried out
  superseded,        ///< the host belongs to a newer controller of this job
  cancelled,
};

/// The name as in JSON and in docs/states.md.
[[nodiscard]] const char* to_string(Cause cause);

/// True for key and host key trouble: a start that fails only by these exits with 77, else 69.
[[nodiscard]] bool is_authentication(Cause cause);

/// True where the same dial may succeed a moment later: refused, silent, closed before the banner.
[[nodiscard]] bool is_transient(Cause cause);

}  // namespace dlaunch::launcher::launch
