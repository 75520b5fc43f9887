// dlaunch-trainer: started by the agent, one process per rank.
#include <csignal>
#include <cstdio>

#include "trainer/exit_code.h"
#include "trainer/io/agent_link.h"
#include "trainer/io/environment.h"
#include "trainer/worker.h"

int main() {
  using namespace dlaunch::trainer;
  std::signal(SIGPIPE, SIG_IGN);  // a reader of our output that is gone is no reason to stop
  const auto environment = read_environment();
  if (!environment) {
    std::fprintf(stderr,
                 "dlaunch-trainer: %s\nIt is started by dlaunch, not by hand: dlaunch train.toml\n",
                 environment.error().text().c_str());
    return kExitUsage;
  }
  Mailbox mailbox(environment->generation);
  const auto link = AgentLink::connect(environment->socket, mailbox);
  if (!link) {
    std::fprintf(stderr, "dlaunch-trainer: %s\n", link.error().text().c_str());
    return kExitFailed;
  }
  return run_worker(*environment, mailbox, **link);
}
