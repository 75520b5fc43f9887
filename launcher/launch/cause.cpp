#include "launcher/launch/cause.h"

namespace dlaunch::launcher::launch {

const char* to_string(Cause cause) {
  switch (cause) {
    case Cause::unresolved:
      return "unresolved";
    case Cause::refused:
      return "refused";
    case Cause::silent:
      return "silent";
    case Cause::closed_before_banner:
      return "closed_before_banner";
    case Cause::host_key_unknown:
      return "host_key_unknown";
    case Cause::host_key_changed:
      return "host_key_changed";
    case Cause::auth_refused:
      return "auth_refused";
    case Cause::scratch_full:
      return "scratch_full";
    case Cause::scratch_read_only:
      return "scratch_read_only";
    case Cause::scratch_noexec:
      return "scratch_noexec";
    case Cause::scratch_foreign:
      return "scratch_foreign";
    case Cause::wrong_architecture:
      return "wrong_architecture";
    case Cause::cannot_dial_back:
      return "cannot_dial_back";
    case Cause::agent_failed:
      return "agent_failed";
    case Cause::ssh_config:
      return "ssh_config";
    case Cause::superseded:
      return "superseded";
    case Cause::cancelled:
      return "cancelled";
  }
  return "unknown";
}

bool is_authentication(Cause cause) {
  return cause == Cause::host_key_unknown || cause == Cause::host_key_changed ||
         cause == Cause::auth_refused;
}

bool is_transient(Cause cause) {
  return cause == Cause::refused || cause == Cause::silent || cause == Cause::closed_before_banner;
}

}  // namespace dlaunch::launcher::launch
