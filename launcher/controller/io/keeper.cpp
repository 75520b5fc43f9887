#include "launcher/controller/io/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <optional>
#include <utility>

#include "base/io/clock.h"
#include "launcher/controller/io/control_socket.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/state_lock.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::controller {
namespace {

using supervisor::job::ExitCode;
using supervisor::job::to_int;

// Names are looked up and run.db is recovered before the controller reports.
constexpr int kUpWithinMilliseconds = 60'000;

/// Between fork and exec only what a signal handler may do.
[[noreturn]] void become(const char* program, const char* role, const char* directory) {
  ::execl(program, "dlaunch", role, directory, nullptr);
  ::_exit(to_int(ExitCode::bug));
}

/// False: no controller takes it at the moment.
bool ask_for_stop(const std::string& directory) {
  const auto socket = connect_to_controller(directory);
  if (!socket) return false;
  constexpr std::string_view kRequest =
      "{\"request\":\"stop\",\"now\":false,\"preempted\":true,\"reason\":\"the keeper was asked to "
      "end\"}\n";
  return ::send(socket->get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) > 0;
}

/// One controller process after the other.
class Keeper {
 public:
  Keeper(std::string directory, KeeperLimits limits, FileDescriptor signals, FileDescriptor report)
      : directory_(std::move(directory)),
        limits_(limits),
        signals_(std::move(signals)),
        report_(std::move(report)) {}

  int run() {
    while (true) {
      if (!start()) return end("the controller could not be started: no process or pipe left");
      const int status = watch();
      // It left by itself: the job is over, or it has said why it cannot begin.
      if (WIFEXITED(status)) return WEXITSTATUS(status);
      if (const auto code = end_on_disk()) return *code;
      if (!may_restart()) {
        return end("the controller died " + std::to_string(limits_.restarts_max + 1) +
                   " times in a short while, the last time by signal " +
                   std::to_string(WTERMSIG(status)) +
                   "; this is a bug in dlaunch, see controller.log. Agents end by their lease");
      }
    }
  }

 private:
  bool start() {
    auto made = make_pipe();
    if (!made) return false;
    pulse_ = std::move(made->read);
    ::fcntl(pulse_.get(), F_SETFL, O_NONBLOCK);
    const auto pulse_text = std::to_string(made->write.get());
    ::setenv(kPulseVariable, pulse_text.c_str(), 1);
    // Who waited for the first start has had the answer: a later one is not his matter any more.
    pollfd reader{report_.get(), 0, 0};
    if (report_.is_open() && ::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) {
      report_.reset();
    }
    if (report_.is_open()) {
      ::setenv(kReportVariable, std::to_string(report_.get()).c_str(), 1);
      ::fcntl(report_.get(), F_SETFD, 0);
    }
    ::fcntl(made->write.get(), F_SETFD, 0);
    prefer_large_pages();
    child_ = ::fork();
    if (child_ == 0) {
      sigset_t none;
      ::sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      become("/proc/self/exe", "__controller", directory_.c_str());
    }
    ::unsetenv(kPulseVariable);
    ::unsetenv(kReportVariable);
    forget_large_pages();
    last_pulse_ = monotonic_now();
    return child_ > 0;
  }

  /// Until the controller is dead; its wait status.
  int watch() {
    bool killed = false;
    while (true) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) return status;
      std::array<pollfd, 2> entries = {{{signals_.get(), POLLIN, 0}, {pulse_.get(), POLLIN, 0}}};
      ::poll(entries.data(), entries.size(), kLookEveryMilliseconds);
      take_signals();
      take_pulses();
      // What came while we ourselves were stopped has just been read.
      if (!killed && monotonic_now() - last_pulse_ > limits_.silence_max) {
        ::kill(child_, SIGKILL);
        killed = true;
      }
    }
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) stop_wanted_ = true;
    }
    if (stop_wanted_ && ask_for_stop(directory_)) stop_wanted_ = false;
  }

  void take_pulses() {
    const auto now = monotonic_now();
    // Our own pause is not the controller's silence.
    if (now - std::exchange(last_look_, now) > seconds(1)) last_pulse_ = now;
    std::array<char, 64> bytes{};
    while (true) {
      const auto count = ::read(pulse_.get(), bytes.data(), bytes.size());
      if (count <= 0) break;
      last_pulse_ = now;
      report_.reset();  // a later start is not the starter's matter any more
    }
  }

  /// It died after its last word: another would take the job for one that is resumed.
  std::optional<int> end_on_disk() const {
    auto reader = RunReader::open(directory_);
    const auto end = reader ? reader->end() : std::nullopt;
    if (!end || !*end) return std::nullopt;
    return (*end)->code;
  }

  bool may_restart() {
    const auto now = monotonic_now();
    while (!restarts_.empty() && now - restarts_.front() > limits_.restarts_window) {
      restarts_.pop_front();
    }
    if (restarts_.size() >= static_cast<std::size_t>(limits_.restarts_max)) return false;
    restarts_.push_back(now);
    return true;
  }

  int end(const std::string& sentence) {
    (void)write_end_if_missing(directory_, {to_int(ExitCode::bug), sentence, unix_now()});
    return to_int(ExitCode::bug);
  }

  static constexpr int kLookEveryMilliseconds = 200;

  std::string directory_;
  KeeperLimits limits_;
  FileDescriptor signals_;
  FileDescriptor report_;
  FileDescriptor pulse_;
  bool stop_wanted_ = false;
  pid_t child_ = -1;
  Instant last_pulse_;
  Instant last_look_ = monotonic_now();
  std::deque<Instant> restarts_;
};

FileDescriptor block_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  return FileDescriptor(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

}  // namespace

int run_keeper(const std::string& directory, const KeeperLimits& limits) {
  ::prctl(PR_SET_DUMPABLE, 0);  // a core file would tell what the user's environment holds
  auto report = take_descriptor(kReportVariable);
  auto signals = block_signals();
  const auto lock = StateLock::take(directory, kKeeperLock);
  if (!lock || !signals.is_open()) {
    const auto why = lock ? "the keeper cannot read its signals"
                          : "this job has a keeper already: " + lock.error().text();
    if (report.is_open()) write_report(report.get(), {to_int(ExitCode::usage), why});
    return to_int(ExitCode::usage);
  }
  return Keeper(directory, limits, std::move(signals), std::move(report)).run();
}

Result<StartReport> start_keeper(const std::string& directory, const std::string& program) {
  auto made = make_pipe();
  if (!made) return tl::unexpected(made.error());
  // Inherited by the keeper under the number that the environment says.
  const auto number = std::to_string(made->write.get());
  const FileDescriptor nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere.is_open()) return failure_from_errno(errno, "opening /dev/null");
  ::setenv(kReportVariable, number.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    // Twice: the keeper is nobody's child, and no terminal can become its own.
    ::setsid();
    if (::fork() != 0) ::_exit(0);
    for (const int standard : {0, 1, 2}) ::dup2(nowhere.get(), standard);
    if (::chdir("/") != 0) ::_exit(to_int(ExitCode::bug));
    ::fcntl(made->write.get(), F_SETFD, 0);
    become(program.c_str(), "__keeper", directory.c_str());
  }
  ::unsetenv(kReportVariable);
  if (child < 0) return failure_from_errno(errno, "starting the keeper");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  made->write.reset();
  auto report = read_report(made->read.get(), kUpWithinMilliseconds);
  if (!report) {
    return failure(report.error().code,
                   report.error().doing + "; see " + directory + "/controller.log");
  }
  return *report;
}

}  // namespace dlaunch::launcher::controller
