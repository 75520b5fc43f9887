#include "launcher/cli/io/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dlaunch::launcher::cli {

Result<Signals> Signals::take() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  ::signal(SIGPIPE, SIG_IGN);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
    return failure_from_errno(errno, "blocking signals");
  }
  const int descriptor = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor < 0) return failure_from_errno(errno, "making a descriptor for signals");
  return Signals(descriptor);
}

Signals::Signals(Signals&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Signals::~Signals() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<int> Signals::next() {
  signalfd_siginfo info{};
  if (::read(descriptor_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace dlaunch::launcher::cli
