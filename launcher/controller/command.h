// What a job's controller orders its hands to do.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "launcher/launch/command.h"
#include "protocol/agent_wire.pb.h"
#include "supervisor/job/command.h"

namespace dlaunch::launcher::controller {

/// The same body to each host's newest connection; a host without one is skipped: what must arrive
/// is sent again when it says hello. Abort goes before everything queued. The shell fills number,
/// acknowledged and, in Assign, the secret token of the generation.
struct SendToHosts {
  std::vector<HostId> hosts;
  protocol::ControllerFrame frame;
};
struct CloseConnection {
  HostId host;
  std::string reason;
};
/// Plant or cancel (launcher/launch/command.h).
struct PlantOrder {
  launch::Command command;
};
/// Journal, Record, IncidentChanged, StateBecame of the job, passed on to run.db and the viewers.
struct FromJob {
  supervisor::job::Command command;
};
/// A sentence for the viewer and controller.log: who is missing, what is waited for, notices.
struct Say {
  std::string sentence;
};
/// Log lines of a rank, for the tail that is kept and for followers.
struct WorkerOutput {
  HostId host;
  Generation generation;
  protocol::LogLines lines;
};
/// A newer controller of this job has the agents: nothing is ordered or written any more.
struct Superseded {
  std::string sentence;
};
/// All agents have left or their time is over: write the end and exit with `code`.
struct Ended {
  int code = 0;
  std::string sentence;
};

using Command = std::variant<SendToHosts, CloseConnection, PlantOrder, FromJob, Say, WorkerOutput,
                             Superseded, Ended>;

}  // namespace dlaunch::launcher::controller
