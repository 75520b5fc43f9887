// What is run on a host to start the agent: a shell script that chooses the scratch directory,
// takes the agent's binary if it is not there yet, and becomes `dlaunch-agent plant`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlaunch::launcher::launch {

/// The command for the SSH server. Every login shell (csh and fish too) reads these words alike;
/// the script itself goes over stdin.
constexpr const char* kShellCommand = "exec /bin/sh";

/// One build of the agent.
struct AgentBinary {
  std::string path;     ///< on this machine
  std::string machine;  ///< as `uname -m` says it: "x86_64"
  std::string hash;     ///< hex digits; part of its name on the host
  std::uint64_t size_bytes = 0;
};

struct StartScript {
  std::string nonce;  ///< letters and digits; tells our lines from noise before them
  std::string job;    ///< shown on the agent's command line, as is the host
  std::string host;
  std::string scratch;  ///< empty: the first usable of /var/tmp, /tmp, ~/.cache
  std::vector<AgentBinary> agents;
  bool thorough = false;  ///< true: an agent that is there already is looked at before it is run
};

/// POSIX sh. It says `ready` and becomes the agent where that is there already; else it says `more`
/// and reads the rest.
[[nodiscard]] std::string to_text(const StartScript& script);

/// What is sent after `more`. It reads nothing from stdin before it has said `ready`, and from then
/// on only the binary (when asked for) and what the agent reads.
[[nodiscard]] std::string rest_of(const StartScript& script);

/// The first line of the conversation.
[[nodiscard]] std::string magic_line(const std::string& nonce);

}  // namespace dlaunch::launcher::launch
