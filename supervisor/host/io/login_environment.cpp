#include "supervisor/host/io/login_environment.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/io/clock.h"
#include "base/io/file_descriptor.h"

namespace dlaunch::supervisor::host {
namespace {

using Variables = std::map<std::string, std::string>;

// NUL on both sides: no profile prints that by chance.
constexpr std::string_view kBegin("\0dlaunch-environment\0", 21);
constexpr std::string_view kEnd("\0dlaunch-environment-end\0", 25);
constexpr std::size_t kAnswerBytesMax = std::size_t{2} << 20U;  // what exec takes by default

std::string shell_of_user() {
  const char* shell = std::getenv("SHELL");
  const bool usable = shell != nullptr && shell[0] == '/' && ::access(shell, X_OK) == 0;
  return usable ? shell : "/bin/sh";
}

/// csh takes -l alone only, and is a login shell by its name.
[[noreturn]] void become_shell(const std::string& shell, const std::string& command, int out) {
  ::setsid();
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nowhere, 0);
  ::dup2(out, 1);
  ::dup2(nowhere, 2);
  const auto name = shell.substr(shell.rfind('/') + 1);
  const auto as_login = "-" + name;
  if (name.ends_with("csh")) {
    ::execl(shell.c_str(), as_login.c_str(), "-c", command.c_str(), nullptr);
  } else {
    ::execl(shell.c_str(), as_login.c_str(), "-l", "-c", command.c_str(), nullptr);
  }
  ::_exit(127);
}

Variables parse(std::string_view text) {
  Variables variables;
  while (!text.empty()) {
    const auto entry = text.substr(0, text.find('\0'));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    variables[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  for (const char* own : {"PWD", "OLDPWD", "SHLVL", "_"}) variables.erase(own);
  return variables;
}

/// Not to the end of the pipe: what a profile left running may hold it open.
Result<Variables> read_answer(int pipe, Instant due, const std::string& doing) {
  std::string answer;
  std::array<char, 16 * 1024> bytes{};
  while (true) {
    const auto begin = answer.find(kBegin);
    const auto end = begin == std::string::npos ? begin : answer.find(kEnd, begin);
    if (end != std::string::npos) {
      const auto from = begin + kBegin.size();
      return parse(std::string_view(answer).substr(from, std::max(end, from) - from));
    }
    if (answer.size() > kAnswerBytesMax) return failure(std::errc::message_size, doing);
    const auto left = due - monotonic_now();
    pollfd entry{pipe, POLLIN, 0};
    const int ready = left > 0ns ? ::poll(&entry, 1, static_cast<int>(left / 1ms) + 1) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return failure(std::errc::timed_out, doing);
    const auto count = ::read(pipe, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failure(std::errc::broken_pipe, doing);
    answer.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Result<Variables> login_environment(const std::string& program, nanoseconds limit) {
  const auto shell = shell_of_user();
  const auto doing = "reading the environment of the login shell " + shell;
  if (program.find('\'') != std::string::npos) return failure(std::errc::invalid_argument, doing);
  const auto command = "exec '" + program + "' environment";
  auto pipe = make_pipe();
  if (!pipe) return tl::unexpected(pipe.error());
  const pid_t pid = ::fork();
  if (pid < 0) return failure_from_errno(errno, doing);
  if (pid == 0) become_shell(shell, command, pipe->write.get());
  pipe->write.reset();
  auto answer = read_answer(pipe->read.get(), monotonic_now() + limit, doing);
  // It ends by itself once it has answered; what its profile started may stay.
  if (!answer) ::kill(-pid, SIGKILL);
  if (!answer) ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return answer;
}

int print_environment() {
  std::string text(kBegin);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    text.append(*entry).push_back('\0');
  }
  text.append(kEnd);
  return write_all(1, text) ? 0 : 1;
}

}  // namespace dlaunch::supervisor::host
