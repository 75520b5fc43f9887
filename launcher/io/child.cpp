#include "launcher/io/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <utility>

extern char** environ;

namespace dlaunch::launcher::io {
namespace {

constexpr nanoseconds kWaitSlice = 5ms;

struct Pair {
  FileDescriptor ours;
  FileDescriptor theirs;
};

/// `we_write`: our end is the writing one.
Result<Pair> make_pipe(bool we_write) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure_from_errno(errno, "making a pipe");
  Pair pair{FileDescriptor(ends[we_write ? 1 : 0]), FileDescriptor(ends[we_write ? 0 : 1])};
  return pair;
}

Result<Pair> make_socket() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return failure_from_errno(errno, "making a socket pair");
  }
  return Pair{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

struct SpawnSettings {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

Result<pid_t> spawn(const std::vector<std::string>& argv, int input, int output, int errors) {
  SpawnSettings settings;
  posix_spawn_file_actions_adddup2(&settings.actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&settings.actions, errors, STDERR_FILENO);
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, pointers[0], &settings.actions, &settings.attributes,
                                  pointers.data(), environ);
  if (code != 0) return failure_from_errno(code, "starting " + argv[0]);
  return pid;
}

/// Appends what is there; false: the other side has closed.
bool drain(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& argv, Wiring wiring) {
  const bool socket = wiring == Wiring::one_socket;
  auto input = socket ? make_socket() : make_pipe(true);
  if (!input) return tl::unexpected(input.error());
  auto errors = make_pipe(false);
  if (!errors) return tl::unexpected(errors.error());
  Pair output;
  if (!socket) {
    auto made = make_pipe(false);
    if (!made) return tl::unexpected(made.error());
    output = std::move(*made);
  }
  const int their_output = socket ? input->theirs.get() : output.theirs.get();
  const auto pid = spawn(argv, input->theirs.get(), their_output, errors->theirs.get());
  if (!pid) return tl::unexpected(pid.error());
  Child child;
  child.pid_ = *pid;
  child.input = std::move(input->ours);
  child.output = std::move(output.ours);
  child.errors = std::move(errors->ours);
  return child;
}

Child::Child(Child&& other) noexcept
    : input(std::move(other.input)),
      output(std::move(other.output)),
      errors(std::move(other.errors)),
      pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

int Child::wait(const Deadline& deadline) {
  while (pid_ > 0) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (deadline.over()) return -1;
    ::poll(nullptr, 0, static_cast<int>(kWaitSlice / 1ms));
  }
  return -1;
}

Result<Answer> ask(const std::vector<std::string>& argv, const Deadline& deadline,
                   std::size_t bytes_max) {
  auto child = Child::start(argv, Child::Wiring::pipes);
  if (!child) return tl::unexpected(child.error());
  child->input.reset();
  Answer answer;
  bool output_open = true;
  bool errors_open = true;
  while (output_open || errors_open) {
    std::array<pollfd, 2> waits{pollfd{output_open ? child->output.get() : -1, POLLIN, 0},
                                pollfd{errors_open ? child->errors.get() : -1, POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), deadline.left_milliseconds()) == 0) {
      return failure(std::errc::timed_out, "waiting for " + argv[0]);
    }
    if (waits[0].revents != 0) output_open = drain(child->output.get(), answer.output);
    if (waits[1].revents != 0) errors_open = drain(child->errors.get(), answer.errors);
    if (answer.output.size() + answer.errors.size() > bytes_max) {
      return failure(std::errc::message_size, "reading the output of " + argv[0]);
    }
  }
  answer.code = child->wait(deadline);
  if (answer.code < 0) return failure(std::errc::timed_out, "waiting for the end of " + argv[0]);
  return answer;
}

}  // namespace dlaunch::launcher::io
