// What happens to a host's agent: from the controller, its workers, its processes and its disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/worker_message.h"
#include "supervisor/host/network_event.h"
#include "supervisor/host/quiet.h"

namespace dlaunch::supervisor::host {

/// Not copied, wherever it is kept: an assignment names every rank of the job.
struct FromController {
  explicit FromController(protocol::ControllerFrame whole)
      : frame(std::make_shared<const protocol::ControllerFrame>(std::move(whole))) {}
  explicit FromController(std::shared_ptr<const protocol::ControllerFrame> whole)
      : frame(std::move(whole)) {}
  std::shared_ptr<const protocol::ControllerFrame> frame;  ///< never null
};
/// A line of a worker's socket, already parsed. `generation` is that of the process.
struct WorkerSaid {
  Rank rank;
  Generation generation;
  protocol::WorkerMessage message;
};
struct WorkerStarted {
  Rank rank;
  Generation generation;
  std::uint32_t pid = 0;
};
struct WorkerNotStarted {
  Rank rank;
  Generation generation;
  std::string sentence;
};
struct WorkerEnded {
  Rank rank;
  Generation generation;
  std::uint32_t pid = 0;
  int code = 0;
  int signal = 0;
  bool out_of_memory = false;
  bool by_itself = false;  ///< it was ending before the agent struck, if the agent did
  std::vector<std::string> last_lines;
  std::string error_message;
};
/// Progress found in a program's output or files.
struct ProgramStep {
  Rank rank;
  Generation generation;
  std::uint64_t step = 0;
};
struct OutputLines {
  Rank rank;
  Generation generation;
  bool error_stream = false;
  std::string text;
  std::uint64_t dropped = 0;
};
/// Two scans in a row found no process of this job and host but the agent and the holder.
struct AllGone {};
/// SIGKILL did not help (D state) within the limit.
struct Undead {
  std::string sentence;
};
struct PortPicked {
  Generation generation;
  std::uint32_t port = 0;  ///< 0: none to be had
};
struct SelfChecked {
  protocol::Ready ready;
  std::string data_interface;  ///< the interface that has the data address; empty: loopback
};
struct CommitDone {
  Generation generation;
  std::uint64_t step = 0;
  std::string error;
};
struct Inspected {
  protocol::CheckpointsFound found;
};
struct MarkLooked {
  Generation generation;
  std::string error;  ///< empty: it is there
};
/// Letter of /proc/<pid>/stat, read with each heartbeat.
struct ProcessStateSeen {
  Rank rank;
  Generation generation;
  std::string letter;
};
/// The agent itself did not run for `gap` (CLOCK_BOOTTIME).
struct Stalled {
  nanoseconds gap{};
};
/// SIGTERM to the agent.
struct LeaveAsked {
  std::string reason;
};
struct DeadlineDue {};

using Event =
    std::variant<ConnectionUp, ConnectionDown, FromController, WorkerSaid, WorkerStarted,
                 WorkerNotStarted, WorkerEnded, ProgramStep, OutputLines, AllGone, Undead,
                 PortPicked, SelfChecked, CommitDone, Inspected, MarkLooked, ProcessStateSeen,
                 LinkSeen, PathsSeen, Stalled, QuietUntil, LeaveAsked, DeadlineDue>;

}  // namespace dlaunch::supervisor::host
