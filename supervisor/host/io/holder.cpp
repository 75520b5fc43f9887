#include "supervisor/host/io/holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "base/io/clock.h"
#include "base/io/file_descriptor.h"
#include "supervisor/host/io/agent_process.h"
#include "supervisor/host/io/process_scan.h"
#include "supervisor/host/io/worker_socket.h"

namespace dlaunch::supervisor::host {
namespace {

constexpr std::size_t kRestartsMax = 5;
constexpr nanoseconds kRestartsWindow = 60s;
constexpr nanoseconds kKilledLimit = 5s;  // what sleeps in the kernel does not die of it
constexpr int kSweepsMax = 500;  // 10 ms each: what does not die in 5 s sleeps in the kernel

/// A copy of this process, which has no thread and no state but the bootstrap. What it opens is
/// closed by exec, so that workers get none of it.
pid_t start_agent(const protocol::Bootstrap& bootstrap, const CommandLine& shown,
                  FileDescriptor report) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  shown.become({"dlaunch-agent", "agent", "--job", bootstrap.job, "--host", bootstrap.host});
  if (!report.is_open()) ::_exit(run_agent(bootstrap, nullptr));
  ::_exit(run_agent(bootstrap, [&report](const std::string& said) {
    (void)write_all(report.get(), said + "\n");
    if (said.find("welcomed") != std::string::npos) report.reset();
  }));
}

/// Two scans in a row without a find; what was orphaned is our child and is reaped on the way.
void sweep(const protocol::Bootstrap& bootstrap) {
  const ProcessScan scan(bootstrap.job, bootstrap.host, ::getpid());
  int empty = 0;
  for (int i = 0; i < kSweepsMax && empty < 2; ++i) {
    empty = scan.strike().empty() ? empty + 1 : 0;
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    ::usleep(10'000);
  }
  if (empty < 2) std::fprintf(stderr, "processes of the job do not die of SIGKILL\n");
}

/// How the agent ended. Once it was told to leave, or says that it does, it has a limit: the job is
/// over on this host, however its storage or its devices behave.
struct End {
  bool over = false;  ///< no other is to be started
  int status = 0;
};

End wait_for(pid_t agent, const sigset_t& watched) {
  std::optional<Instant> kill_due, give_up;
  End end;
  while (true) {
    const timespec look{1, 0};
    const int number = ::sigtimedwait(&watched, nullptr, &look);
    if (number == SIGTERM) ::kill(agent, SIGTERM);
    if ((number == SIGTERM || number == kLeavingSignal) && !kill_due) {
      kill_due = monotonic_now() + kLeaveLimit;
    }
    int ended = 0;
    for (pid_t child = 0; (child = ::waitpid(-1, &ended, WNOHANG)) > 0;) {
      if (child != agent) continue;
      end.status = ended;
      end.over = kill_due || (WIFEXITED(ended) && WEXITSTATUS(ended) == kAgentOver);
      return end;
    }
    if (kill_due && !give_up && monotonic_now() > *kill_due) {
      std::fprintf(stderr, "%.3f the agent does not end, it is killed\n", unix_now());
      ::kill(agent, SIGKILL);
      give_up = monotonic_now() + kKilledLimit;
    }
    if (give_up && monotonic_now() > *give_up) {
      std::fprintf(stderr, "%.3f the agent does not die of SIGKILL\n", unix_now());
      end.over = true;
      return end;
    }
  }
}

}  // namespace

int run_holder(protocol::Bootstrap bootstrap, const CommandLine& shown, FileDescriptor report) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t watched;
  sigemptyset(&watched);
  for (const int number : {SIGTERM, SIGCHLD, SIGINT, SIGHUP, kLeavingSignal})
    sigaddset(&watched, number);
  ::sigprocmask(SIG_BLOCK, &watched, nullptr);
  std::deque<Instant> restarts;
  bool over = false;
  while (!over) {
    const pid_t agent = start_agent(bootstrap, shown, std::exchange(report, FileDescriptor()));
    bootstrap.first = false;  // the next one may find what this one leaves
    if (agent < 0) break;
    const auto [ended, status] = wait_for(agent, watched);
    over = ended;
    if (over) break;
    std::fprintf(stderr, "%.3f the agent died (status %d), another is started\n", unix_now(),
                 status);
    const auto now = monotonic_now();
    while (!restarts.empty() && restarts.front() + kRestartsWindow < now) restarts.pop_front();
    if (restarts.size() >= kRestartsMax) {
      std::fprintf(stderr, "the agent died %zu times in a minute: given up\n", restarts.size() + 1);
      break;
    }
    restarts.push_back(now);
  }
  sweep(bootstrap);
  remove_sockets_of(bootstrap.directory());
  return over ? 0 : 1;
}

}  // namespace dlaunch::supervisor::host
