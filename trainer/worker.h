// A worker's life: parked, assigned, training, parked again, until it is finished.
#pragma once

#include "trainer/io/agent_link.h"
#include "trainer/io/environment.h"
#include "trainer/mailbox.h"

namespace dlaunch::trainer {

/// Returns the process's exit code (exit_code.h).
[[nodiscard]] int run_worker(const Environment& environment, Mailbox& mailbox, AgentLink& link);

}  // namespace dlaunch::trainer
