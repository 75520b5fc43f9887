// What happens to a host's agent: its connection, its links, its paths to the other hosts.
#pragma once

#include <string>

#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

/// TLS is up and mutual proof done; the machine says Hello.
struct ConnectionUp {
  std::string relayed_by{};  ///< the host whose agent passes the bytes on; empty: none
  bool over_ssh = false;     ///< the bytes go over the connection that planted it
};
/// Down, or an attempt failed; the shell dials again by itself with back-off until told to stop.
struct ConnectionDown {
  std::string reason;
};
struct LinkSeen {
  std::string interface;
  bool up = true;
  double down_seconds = 0;
};
/// Whom this agent probes on the data network, and who of them answers.
struct PathsSeen {
  protocol::PathReport report;
};

}  // namespace dlaunch::supervisor::host
