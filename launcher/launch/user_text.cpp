#include "launcher/launch/user_text.h"

#include "base/units.h"

namespace dlaunch::launcher::launch {
namespace {

/// "10.0.0.1 port 22"
std::string place(const Where& where) {
  return where.address + " port " + std::to_string(where.port);
}

/// "ann@10.0.0.1"
std::string login(const Where& where) {
  return where.user.empty() ? where.address : where.user + "@" + where.address;
}

/// As known_hosts writes it: "[10.0.0.1]:2222" unless the port is 22.
std::string known_hosts_name(const Where& where) {
  if (where.port == 22) return where.address;
  return "[" + where.address + "]:" + std::to_string(where.port);
}

std::string try_by_hand(const Where& where) {
  return "`ssh -p " + std::to_string(where.port) + " " + login(where) + " true`";
}

std::string directory(const Where& where) {
  return where.scratch.empty() ? "the scratch directory" : "the scratch directory " + where.scratch;
}

std::string of_network(Cause cause, const Where& where) {
  switch (cause) {
    case Cause::unresolved:
      return "the name " + where.address +
             " has no address; check its spelling, or give `address` in the hosts file";
    case Cause::refused:
      return place(where) +
             " refused the connection: no SSH server listens there; check that it runs, and `port` "
             "in the hosts file";
    case Cause::silent:
      return place(where) + " did not answer within " + format_duration(where.waited) +
             ": the host is down, frozen, or a firewall drops the packets; try " +
             try_by_hand(where);
    default:
      return place(where) +
             " closed the connection before it said who it is: too many logins at once "
             "(MaxStartups), a ban of this address, or no SSH server; see the host's sshd log";
  }
}

std::string of_authentication(Cause cause, const Where& where) {
  switch (cause) {
    case Cause::host_key_unknown:
      return "the host key of " + place(where) + " is not in known_hosts; compare it once with " +
             try_by_hand(where) + ", or set `host_keys = \"accept-new\"` under [network]";
    case Cause::host_key_changed:
      return "the host key of " + place(where) +
             " is not the one in known_hosts: the host was set up anew, or somebody listens in; "
             "after checking, `ssh-keygen -R " +
             known_hosts_name(where) + "` forgets the old key";
    default:
      return login(where) + " port " + std::to_string(where.port) +
             " accepts none of our keys; load the right one into ssh-agent, or give `identity` "
             "and `user` in the hosts file; try " +
             try_by_hand(where);
  }
}

std::string of_scratch(Cause cause, const Where& where) {
  switch (cause) {
    case Cause::scratch_full:
      return directory(where) +
             " has no space for the agent; free some there, or give another "
             "`scratch` in the hosts file";
    case Cause::scratch_read_only:
      return directory(where) +
             " cannot be written: mounted read-only, or no permission; give another `scratch` in "
             "the hosts file";
    case Cause::scratch_noexec:
      return directory(where) +
             " is mounted noexec, so that the agent cannot be started from it; "
             "give another `scratch` in the hosts file";
    default:
      return directory(where) +
             " belongs to somebody else or is open to others; remove it, or give another `scratch` "
             "in the hosts file";
  }
}

std::string of_agent(Cause cause, const Where& where) {
  switch (cause) {
    case Cause::wrong_architecture:
      return "the agent was not built for this machine";
    case Cause::cannot_dial_back:
      return "the agent runs there but does not reach the controller; see `controller_address` "
             "and `ports` under [network], and firewalls between the host and this machine";
    case Cause::ssh_config:
      return "the SSH settings for " + where.address + " cannot be used; see `ssh -G " +
             where.address + "`";
    case Cause::superseded:
      return "a newer controller of this job, started elsewhere, has this host";
    case Cause::cancelled:
      return "the start was cancelled";
    default:
      return "the agent did not come up; its log is under the host's scratch directory";
  }
}

std::string plain(Cause cause, const Where& where) {
  switch (cause) {
    case Cause::unresolved:
    case Cause::refused:
    case Cause::silent:
    case Cause::closed_before_banner:
      return of_network(cause, where);
    case Cause::host_key_unknown:
    case Cause::host_key_changed:
    case Cause::auth_refused:
      return of_authentication(cause, where);
    case Cause::scratch_full:
    case Cause::scratch_read_only:
    case Cause::scratch_noexec:
    case Cause::scratch_foreign:
      return of_scratch(cause, where);
    default:
      return of_agent(cause, where);
  }
}

}  // namespace

std::string sentence(Cause cause, const Where& where) {
  std::string text = where.host + ": " + plain(cause, where);
  if (!where.detail.empty()) text += " (" + where.detail + ")";
  return text;
}

}  // namespace dlaunch::launcher::launch
