#include "supervisor/host/io/plant.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/io/clock.h"
#include "base/io/file_descriptor.h"
#include "base/io/files.h"
#include "protocol/bootstrap.h"
#include "protocol/json_text.h"
#include "supervisor/host/io/holder.h"
#include "supervisor/host/io/login_environment.h"
#include "supervisor/host/io/tunnel.h"

namespace dlaunch::supervisor::host {
namespace {

using nlohmann::json;

constexpr nanoseconds kWelcomeLimit = 5s;
constexpr nanoseconds kOfferLimit = 8s;   // with the limit above less than a hello is waited for
constexpr nanoseconds kLivingLimit = 5s;  // an agent that dials in vain looks here in between
constexpr nanoseconds kTakeOverLimit = 5s;
constexpr std::uint64_t kFreeBytesMin = 1024 * 1024;  // logs, sockets, the lock
constexpr nanoseconds kLoginLimit = 5s;               // profiles that load modules take seconds
constexpr useconds_t kPollMicroseconds = 20'000;

void say(const json& line) {
  std::printf("%s\n", protocol::json_text(line).c_str());
  std::fflush(stdout);
}

int fail(const std::string& cause, const std::string& sentence) {
  say({{"state", "failed"}, {"cause", cause}, {"sentence", sentence}});
  return 1;
}

Result<std::string> read_line() {
  std::string line;
  std::array<char, 4096> bytes{};
  while (line.find('\n') == std::string::npos) {
    if (line.size() > protocol::kBootstrapBytesMax) {
      return failure(std::errc::message_size, "reading the bootstrap");
    }
    const auto count = ::read(0, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failure(std::errc::connection_reset, "reading the bootstrap from stdin");
    line.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return line.substr(0, line.find('\n'));
}

/// An agent that was there already came without a look at the space.
Result<void> want_space(const std::string& directory) {
  struct statvfs system {};
  if (::statvfs(directory.c_str(), &system) != 0) return {};
  if (std::uint64_t{system.f_bavail} * system.f_frsize >= kFreeBytesMin) return {};
  return failure(std::errc::no_space_on_device, "less than 1 MiB is free in " + directory);
}

/// Each part 0700 and ours; a foreign directory in our place is somebody's trap.
Result<void> make_directory(const protocol::Bootstrap& bootstrap) {
  for (const auto& path :
       {bootstrap.scratch, bootstrap.scratch + "/" + bootstrap.job, bootstrap.directory()}) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return failure_from_errno(errno, "making " + path);
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return failure_from_errno(errno, "looking at " + path);
    if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 0077) != 0) {
      return failure(std::errc::permission_denied,
                     path + " is not this user's own directory with mode 0700");
    }
  }
  return {};
}

/// Holder, agent and workers inherit ours: it becomes what a login on this host sets.
void take_login_environment() {
  std::error_code code;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", code).string();
  const auto variables = login_environment(program, kLoginLimit);
  if (!variables) {
    return say({{"state", "notice"},
                {"sentence", variables.error().text() +
                                 "; workers there get the environment that SSH gives instead"}});
  }
  ::clearenv();
  for (const auto& [name, value] : *variables) ::setenv(name.c_str(), value.c_str(), 1);
}

/// Of two controllers of one job, which each take the other for dead, the newer one has the host.
std::optional<std::string> superseded(const protocol::Bootstrap& bootstrap) {
  const auto path = bootstrap.directory() + "/incarnation";
  const auto newest = std::strtoull(read_file(path, 32).value_or("0").c_str(), nullptr, 10);
  if (newest > bootstrap.incarnation.value) return "incarnation " + std::to_string(newest);
  // Where it cannot be written nothing else can be either, and that is said.
  (void)swap_file(path, std::to_string(bootstrap.incarnation.value));
  return std::nullopt;
}

/// An older holder of this job and host is asked to leave, then made to.
Result<FileDescriptor> take_over(const protocol::Bootstrap& bootstrap) {
  const auto path = bootstrap.directory() + "/holder.lock";
  FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open()) return failure_from_errno(errno, "opening " + path);
  const auto began = monotonic_now();
  int signals = 0;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    const auto waited = monotonic_now() - began;
    if (waited > kTakeOverLimit) {
      return failure(std::errc::timed_out, "waiting for an older agent of this job to leave");
    }
    const auto pid = static_cast<pid_t>(std::atoi(read_file(path, 32).value_or("0").c_str()));
    const auto line = read_file("/proc/" + std::to_string(pid) + "/cmdline", 4096).value_or("");
    const bool ours = pid > 1 && line.find("holder") != std::string::npos &&
                      line.find(bootstrap.job) != std::string::npos;
    if (ours && signals == 0) {
      ::kill(pid, SIGTERM);
      ++signals;
    } else if (ours && signals == 1 && waited > kTakeOverLimit / 2) {
      ::kill(pid, SIGKILL);
      ++signals;
    }
    ::usleep(kPollMicroseconds);
  }
  return lock;
}

/// In a session of its own, with the log as its output. It keeps the lock.
pid_t start_holder(const protocol::Bootstrap& bootstrap, const CommandLine& shown,
                   FileDescriptor report, Pipe& ours) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ours.read.reset();
  ::setsid();
  shown.become({"dlaunch-agent", "holder", "--job", bootstrap.job, "--host", bootstrap.host});
  const auto log = bootstrap.directory() + "/agent.log";
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const FileDescriptor file(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ::dup2(nothing.get(), STDIN_FILENO);
  ::dup2(file.get(), STDOUT_FILENO);
  ::dup2(file.get(), STDERR_FILENO);
  ::_exit(run_holder(bootstrap, shown, std::move(report)));
}

int become_tunnel(TunnelOffer& offer) {
  const auto socket = offer.accept();
  if (!socket) return fail("cannot_dial_back", socket.error().text());
  say({{"state", "tunnel"}});
  pass_bytes(STDIN_FILENO, STDOUT_FILENO, socket->get());
  return 0;
}

/// An agent that is there and was only cut off from its controller goes on; nullopt: there is none,
/// or it does not come.
std::optional<int> serve_living(const protocol::Bootstrap& bootstrap) {
  if (bootstrap.control == protocol::Control::dial || bootstrap.first) return std::nullopt;
  const auto path = bootstrap.directory() + "/holder.lock";
  const FileDescriptor lock(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return std::nullopt;
  auto offer = TunnelOffer::open(bootstrap.directory());
  if (!offer) return std::nullopt;
  // Who is not wanted any more, because the agent has come back by itself, takes nothing over:
  // nothing is said on stdin before there is a tunnel, so that a word there is its end.
  std::array<pollfd, 2> entries{pollfd{offer->descriptor(), POLLIN, 0},
                                pollfd{STDIN_FILENO, POLLIN, 0}};
  if (::poll(entries.data(), entries.size(), static_cast<int>(kLivingLimit / 1ms)) < 1) {
    return std::nullopt;
  }
  if (entries[0].revents == 0) return fail("agent_failed", "nobody waits for it any more");
  const auto pid = std::atoi(read_file(path, 32).value_or("0").c_str());
  say({{"state", "started"}, {"pid", std::max(pid, 0)}});
  return become_tunnel(*offer);
}

/// Passes the agent's lines on until it is welcomed, or its bytes where it cannot reach the
/// controller by itself.
class Following {
 public:
  Following(const protocol::Bootstrap& bootstrap, int report, pid_t holder)
      : bootstrap_(bootstrap), report_(report), holder_(holder) {}

  int run() {
    const bool only_ssh = bootstrap_.control == protocol::Control::ssh;
    auto due = monotonic_now() + (only_ssh ? 0s : kWelcomeLimit);
    while (true) {
      const auto left = due - monotonic_now();
      if (left <= 0ns) {
        if (offer_ || bootstrap_.control == protocol::Control::dial) return give_up();
        auto offer = TunnelOffer::open(bootstrap_.directory());
        if (!offer) return give_up(offer.error().text());
        offer_.emplace(std::move(*offer));
        due = monotonic_now() + kOfferLimit;
        continue;
      }
      std::array<pollfd, 2> entries{pollfd{report_, POLLIN, 0},
                                    pollfd{offer_ ? offer_->descriptor() : -1, POLLIN, 0}};
      if (::poll(entries.data(), entries.size(), static_cast<int>(left / 1ms) + 1) <= 0) continue;
      if (entries[0].revents != 0) {
        if (const auto code = listen()) return *code;
      } else if (entries[1].revents != 0) {
        return become_tunnel(*offer_);
      }
    }
  }

 private:
  /// The last failures are the cause of the silence.
  int give_up(std::string why = "") {
    ::kill(holder_, SIGTERM);
    for (const auto& reason : newest_) why += (why.empty() ? "" : "; ") + reason;
    return fail("cannot_dial_back", "it cannot reach the controller (" +
                                        (why.empty() ? "no answer" : why) +
                                        "); is a firewall between them, or is [network] "
                                        "controller_address wrong?");
  }

  /// A code: it is over.
  std::optional<int> listen() {
    std::array<char, 4096> bytes{};
    const auto count = ::read(report_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return std::nullopt;
    if (count <= 0) {
      ::kill(holder_, SIGTERM);
      return fail("agent_failed",
                  "the agent ended at once; its log is " + bootstrap_.directory() + "/agent.log");
    }
    buffer_.append(bytes.data(), static_cast<std::size_t>(count));
    for (auto end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n')) {
      const auto line = protocol::read_json(std::string_view(buffer_).substr(0, end));
      buffer_.erase(0, end + 1);
      if (!line.is_object()) continue;
      const auto state = line.value("state", "");
      if (state == "unreachable") {
        newest_.push_back(line.value("reason", ""));
        if (newest_.size() > bootstrap_.addresses.size()) newest_.pop_front();
        continue;
      }
      say(line);
      if (state == "welcomed") return 0;
    }
    return std::nullopt;
  }

  const protocol::Bootstrap& bootstrap_;
  int report_;
  pid_t holder_;
  std::optional<TunnelOffer> offer_;
  std::string buffer_;
  std::deque<std::string> newest_;  ///< of the newest round, one for each address
};

}  // namespace

int run_plant(const CommandLine& shown) {
  ::signal(SIGPIPE, SIG_IGN);
  // The secret is in memory, here and in the copies that become holder and agent; workers get
  // their own setting by exec.
  ::prctl(PR_SET_DUMPABLE, 0);
  const auto line = read_line();
  if (!line) return fail("agent_failed", line.error().text());
  const auto bootstrap = protocol::parse_bootstrap(*line);
  if (!bootstrap) return fail("agent_failed", bootstrap.error().text());
  auto made = make_directory(*bootstrap);
  if (made) made = want_space(bootstrap->directory());
  if (!made) {
    const bool full = made.error().code == std::errc::no_space_on_device;
    const bool fixed = made.error().code == std::errc::read_only_file_system;
    return fail(full    ? "scratch_full"
                : fixed ? "scratch_read_only"
                        : "scratch_foreign",
                made.error().text());
  }
  if (const auto newer = superseded(*bootstrap)) return fail("superseded", *newer);
  if (const auto code = serve_living(*bootstrap)) return *code;
  // A newer controller may have come meanwhile.
  if (const auto newer = superseded(*bootstrap)) return fail("superseded", *newer);
  if (bootstrap->login_environment) take_login_environment();
  auto lock = take_over(*bootstrap);
  if (!lock) return fail("agent_failed", lock.error().text());
  auto report = make_pipe();
  if (!report) return fail("agent_failed", "too many files are open on this host");
  const auto holder = start_holder(*bootstrap, shown, std::move(report->write), *report);
  if (holder < 0) return fail("agent_failed", "this host has no room for another process");
  const auto number = std::to_string(holder) + "\n";
  if (::ftruncate(lock->get(), 0) == 0)
    (void)!::pwrite(lock->get(), number.data(), number.size(), 0);
  lock->reset();
  say({{"state", "started"}, {"pid", holder}});
  return Following(*bootstrap, report->read.get(), holder).run();
}

}  // namespace dlaunch::supervisor::host
