// From evidence to the cause: which of several things that happened explains the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::job {

/// How much a piece of evidence explains; higher explains more.
enum class Weight {
  cascade,    ///< a rank lost a peer: a consequence unless nothing else is known
  watchdog,   ///< a library noticed that something does not answer
  exception,  ///< a rank says that it cannot go on
  ended,      ///< a process ended by itself
  agent,      ///< a host's agent is gone, and its workers with it
  host_fact,  ///< killed by a signal, out of memory, the host is silent, its link is down
};

/// One thing that happened, in a form that can be compared and said.
struct Happening {
  Weight weight = Weight::cascade;
  std::string cause;  ///< docs/states.md
  std::optional<HostId> host;
  std::optional<Rank> rank;
  std::string what;  ///< "rank 3 on gpu02 was killed by SIGKILL"
  std::vector<std::string> last_lines;
  Instant happened_at;
  int code = 0;  ///< of the program, where it ended
  int signal = 0;
};

/// The category of a worker that finds the bytes of its restore point wrong.
constexpr const char* kCheckpointDamaged = "checkpoint_damaged";

/// nullopt: nothing fatal (an ordered or a proper end).
[[nodiscard]] std::optional<Happening> judge_exit(const protocol::WorkerExited& exited,
                                                  const std::string& host, bool trainer);
/// A program's rank found the port taken that was free when the agent picked it: its last lines say
/// so and name the port.
[[nodiscard]] bool is_port_conflict(const protocol::WorkerExited& exited, std::uint32_t port);
[[nodiscard]] Happening judge_failing(const protocol::WorkerFailing& failing,
                                      const std::string& host);
[[nodiscard]] std::optional<Happening> judge_finding(const protocol::Finding& finding,
                                                     const std::string& host);

/// A rank that has said why it cannot go on, and then exits: the exit means what the rank said. One
/// that said that a peer is lost is a consequence, whatever code it exits with.
void explain(Happening& exit, std::span<const Happening> before);

/// The index of the one that explains the others: the weightiest, of these the first to happen.
[[nodiscard]] std::size_t judge_cause(std::span<const Happening> happenings);

/// "SIGKILL"; "signal 64" where it has no name.
[[nodiscard]] std::string signal_name(int number);

}  // namespace dlaunch::supervisor::job
