// What a host's agent answers. The shell carries it out; the comment names the event that reports
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/endpoints.h"
#include "protocol/worker_message.h"

namespace dlaunch::supervisor::host {

/// Sending order on the socket: abort answers, assign answers, heartbeat before evidence before
/// logs.
struct Send {
  protocol::AgentFrame frame;  ///< number and acknowledged are the shell's
};
/// Closes the connection; the shell dials again.
struct Reconnect {
  std::string reason;
};
/// WorkerStarted or WorkerNotStarted, later WorkerEnded. The shell adds DLAUNCH_SOCKET,
/// TORCHELASTIC_ERROR_FILE and the log files.
struct StartWorker {
  Rank rank;
  std::uint32_t local_rank = 0;
  Generation generation;
  std::vector<std::string> argv;  ///< ${…} replaced
  std::string directory;
  std::map<std::string, std::string> environment;
};
struct TellWorker {
  Rank rank;
  Generation generation;
  protocol::AgentMessage message;
  /// Of an Assign, whose own are empty: one list for all workers of a host. `add_endpoints`.
  protocol::SharedEndpoints endpoints;
};
/// SIGTERM to each worker's process group.
struct AskWorkersToEnd {};
/// SIGCONT + SIGKILL to every process of the job on this host but agent and holder, until two scans
/// find none: AllGone. Undead before it when that takes long.
struct KillAll {};
/// Of this range; first 0: whichever the kernel has. Answered by PortPicked.
struct PickPort {
  Generation generation;
  std::uint32_t first = 0, last = 0;
};
struct CheckSelf {
  protocol::JobSpec job;
};
struct CommitCheckpoint {
  Generation generation;
  protocol::Commit commit;
};
/// Beside the shard, for whoever looks at the directory next: the controller does not hear of it.
struct NoteWritten {
  Generation generation;
  std::string directory;
  protocol::Written written;
};
/// Takes the lock and renews it until the agent leaves or another order comes.
struct InspectCheckpoints {
  std::string directory;
  std::string job;
  nanoseconds lock_stale_after{};
  std::string mark;  ///< to be left for other hosts to find
};
/// Answered by MarkLooked; looks again for a few seconds, a network file system may be late.
struct FindMark {
  Generation generation;
  std::string directory;
  std::string mark;
};
/// Probes these and knows these relays from now on; answered by PathsSeen, now and at each change.
struct KnowPeers {
  protocol::Peers peers;
  nanoseconds lost_after{};
};
/// A worker of this generation failed: its logs are kept, if it is the first.
struct KeepLogs {
  Generation generation;
};
/// The end: flush what is queued, remove the job's sockets, tell the holder all is over, exit.
struct Exit {
  std::string reason;
};
/// For agent.log, when a reason changes.
struct Note {
  std::string sentence;
};

using Command = std::variant<Send, Reconnect, StartWorker, TellWorker, AskWorkersToEnd, KillAll,
                             PickPort, CheckSelf, CommitCheckpoint, NoteWritten, InspectCheckpoints,
                             FindMark, KnowPeers, KeepLogs, Exit, Note>;

/// The shell's last step before a worker is told: an assignment says where all ranks listen.
const protocol::AgentMessage& add_endpoints(TellWorker& order);

}  // namespace dlaunch::supervisor::host
