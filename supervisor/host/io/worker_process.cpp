#include "supervisor/host/io/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dlaunch::supervisor::host {
namespace {

/// What the child reports when it cannot become the program.
struct ChildFailure {
  int number = 0;
  int where = 0;  ///< 0: directory, 1: exec
};

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& over) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : over) all[name] = value;
  std::vector<std::string> list;
  for (const auto& [name, value] : all) list.push_back(name + "=" + value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

/// As execvpe, but in the worker's PATH, where glibc's looks into the caller's. Only names: the
/// disks they are on are looked at by the child, which may have to wait for them.
std::vector<std::string> places_of(const std::string& command,
                                   const std::vector<std::string>& environment) {
  if (command.find('/') != std::string::npos) return {command};
  std::string paths = "/usr/bin:/bin";
  for (const auto& entry : environment) {
    if (entry.starts_with("PATH=")) paths = entry.substr(5);
  }
  std::vector<std::string> places;
  for (std::size_t begin = 0; begin <= paths.size();) {
    const auto end = std::min(paths.find(':', begin), paths.size());
    places.push_back(paths.substr(begin, end - begin) + "/" + command);
    begin = end + 1;
  }
  return places;
}

[[noreturn]] void become_program(const std::vector<std::string>& places, char* const* argv,
                                 char* const* envp, const std::string& directory, int out,
                                 int error, int report) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(number, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, 0);
  ::dup2(out, 1);
  ::dup2(error, 2);
  ChildFailure failure;
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) {
    failure = {errno, 0};
  } else {
    failure = {ENOENT, 1};
    for (const auto& path : places) {
      ::execve(path.c_str(), argv, envp);
      if (errno != ENOENT && errno != ENOTDIR) failure.number = errno;
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
    }
  }
  (void)!::write(report, &failure, sizeof(failure));
  ::_exit(127);
}

}  // namespace

Result<SpawnedWorker> spawn_worker(const SpawnOrder& order) {
  auto out = make_pipe();
  auto error = make_pipe();
  auto report = make_pipe();
  if (!out || !error || !report) return failure(std::errc::too_many_files_open, "making pipes");
  auto argv_words = order.argv;
  auto environment_words = merged_environment(order.environment);
  const auto places = places_of(argv_words.front(), environment_words);
  const auto argv = pointers(argv_words);
  const auto envp = pointers(environment_words);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return failure_from_errno(errno, "starting " + order.argv.front());
  if (pid == 0) {
    if (::getppid() != parent) ::_exit(127);
    become_program(places, argv.data(), envp.data(), order.directory, out->write.get(),
                   error->write.get(), report->write.get());
  }
  SpawnedWorker worker;
  worker.pid = pid;
  worker.pidfd = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!worker.pidfd.is_open()) {
    const int number = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return failure_from_errno(number, "watching " + order.argv.front());
  }
  for (auto* end : {&out->read, &error->read, &report->read}) {
    ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  worker.out = std::move(out->read);
  worker.error = std::move(error->read);
  worker.report = std::move(report->read);
  return worker;
}

Result<void> read_report(std::string_view bytes, const SpawnOrder& order) {
  ChildFailure failed;
  if (bytes.size() < sizeof(failed)) return {};
  std::memcpy(&failed, bytes.data(), sizeof(failed));
  return failure_from_errno(failed.number, failed.where == 0 ? "entering " + order.directory
                                                             : "executing " + order.argv.front());
}

}  // namespace dlaunch::supervisor::host
