// Ends all NCCL communicators of a process in one call, and not longer than it may take.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

#include "base/time.h"

namespace dlaunch::comm {

/// One after the other they may wait for each other for ever, so they are ended together. Empty if
/// all are ended; otherwise a sentence why not: then device and process are of no more use, and the
/// process is to be ended (a thread of NCCL stays in it).
[[nodiscard]] std::string abort_together(int device, std::vector<ncclComm_t> communicators,
                                         milliseconds limit);

}  // namespace dlaunch::comm
