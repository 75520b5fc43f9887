// How dlaunch-trainer exits; the agent sees the code, and has heard the reason before.
#pragma once

namespace dlaunch::trainer {

enum ExitCode : int {
  kExitFinished = 0,   ///< last step or stop, checkpoint on disk
  kExitFailed = 1,     ///< said `failing`, or could not even say it
  kExitUsage = 2,      ///< started by hand: the environment of a worker is missing
  kExitAgentGone = 3,  ///< the agent closed the socket, or stopped reading it
  kExitForgotten = 4,  ///< parked, and nothing came for the limit
};

}  // namespace dlaunch::trainer
