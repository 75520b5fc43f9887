#include "launcher/io/local_start.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

constexpr std::size_t kErrorsKeptBytes = 600;

/// What a login would set, and which devices are ours; `inherit` in train.toml adds to it, as on a
/// host that is reached over SSH.
bool is_of_login(std::string_view name) {
  constexpr std::array<std::string_view, 14> kNames = {"HOME",
                                                       "USER",
                                                       "LOGNAME",
                                                       "SHELL",
                                                       "PATH",
                                                       "LANG",
                                                       "LANGUAGE",
                                                       "TZ",
                                                       "TMPDIR",
                                                       "TERM",
                                                       "XDG_RUNTIME_DIR",
                                                       "XDG_SESSION_ID",
                                                       "DBUS_SESSION_BUS_ADDRESS",
                                                       "CUDA_VISIBLE_DEVICES"};
  return name.starts_with("LC_") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::vector<std::string> login_shell() {
  std::vector<std::string> words{"/usr/bin/env", "-i"};
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (is_of_login(text.substr(0, text.find('=')))) words.emplace_back(text);
  }
  words.emplace_back("/bin/sh");
  return words;
}

std::string words_for(int number) { return std::generic_category().message(number); }

}  // namespace

LocalShell::LocalShell(Child child, Interrupt& interrupt)
    : child_(std::move(child)), interrupt_(interrupt) {
  ::fcntl(child_.input.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(child_.errors.get(), F_SETFL, O_NONBLOCK);
}

LocalShell::~LocalShell() { interrupt_.forget(); }

Planting<std::unique_ptr<LocalShell>> LocalShell::open(Interrupt& interrupt) {
  return run(login_shell(), interrupt);
}

Planting<std::unique_ptr<LocalShell>> LocalShell::run(const std::vector<std::string>& argv,
                                                      Interrupt& interrupt) {
  auto child = Child::start(argv, Child::Wiring::one_socket);
  if (!child) return plant_failure(Cause::agent_failed, child.error().text());
  if (!interrupt.watch(child->input.get())) return plant_failure(Cause::cancelled, "");
  return std::unique_ptr<LocalShell>(new LocalShell(std::move(*child), interrupt));
}

bool LocalShell::await(short events, const Deadline& deadline) {
  bool errors_open = true;
  while (true) {
    std::array<pollfd, 2> waits{pollfd{child_.input.get(), events, 0},
                                pollfd{errors_open ? child_.errors.get() : -1, POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), deadline.left_milliseconds()) == 0) return false;
    if (waits[1].revents != 0) {
      std::array<char, 4096> buffer{};
      const ssize_t count = ::read(child_.errors.get(), buffer.data(), buffer.size());
      if (count > 0) errors_.append(buffer.data(), static_cast<std::size_t>(count));
      errors_open = count > 0;
      if (errors_.size() > kErrorsKeptBytes) errors_.erase(0, errors_.size() - kErrorsKeptBytes);
    }
    if (waits[0].revents != 0) return true;
  }
}

Planting<void> LocalShell::write(std::string_view bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    if (!await(POLLOUT, deadline)) return plant_failure(Cause::silent, "it reads no more");
    const ssize_t count =
        ::send(child_.input.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      return plant_failure(Cause::agent_failed, words_for(errno));
    }
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Planting<std::string> LocalShell::read(const Deadline& deadline) {
  std::array<char, 4096> buffer{};
  while (true) {
    if (!await(POLLIN, deadline)) return plant_failure(Cause::silent, "no answer any more");
    if (interrupt_.interrupted()) return plant_failure(Cause::cancelled, "");
    const ssize_t count = ::read(child_.input.get(), buffer.data(), buffer.size());
    if (count >= 0) return std::string(buffer.data(), static_cast<std::size_t>(count));
    if (errno != EAGAIN && errno != EINTR) {
      return plant_failure(Cause::agent_failed, words_for(errno));
    }
  }
}

std::string LocalShell::errors() {
  std::string text = errors_;
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace dlaunch::launcher::io
