// Stands for dlaunch in the keeper's test: `__keeper` is the real one with short limits,
// `__controller` does what the file "orders" in its state directory says, one word a start.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/io/clock.h"
#include "launcher/controller/io/keeper.h"
#include "launcher/controller/io/process_io.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/state_lock.h"

namespace {

using namespace dlaunch;
using namespace dlaunch::launcher::controller;

/// The word of this start: the nth start takes the nth word, the last one stays.
std::string order(const std::string& directory, std::uint64_t start) {
  std::ifstream orders(directory + "/orders");
  std::string word;
  for (std::uint64_t i = 0; i < start && orders >> word; ++i) {
  }
  return word;
}

[[noreturn]] void live(int pulse) {
  while (true) {
    if (::write(pulse, "p", 1) < 0) ::_exit(3);
    ::poll(nullptr, 0, 50);
  }
}

int controller(const std::string& directory) {
  auto report = take_descriptor(kReportVariable);
  const auto pulse = take_descriptor(kPulseVariable);
  auto store = RunStore::open(directory);
  const auto lock = StateLock::take(directory, kControllerLock);
  const auto start = store->begin({host_name(), boot_id(), ::getpid()});
  if (!start || !lock || !pulse.is_open()) return 70;
  const auto word = order(directory, start->incarnation.value);
  if (word == "die-early") ::raise(SIGKILL);
  if (word == "refuse") {
    (void)store->write({EndRow{65, "train.toml:1:1: unknown key", unix_now()}});
    if (report.is_open()) write_report(report.get(), {65, "train.toml:1:1: unknown key"});
    return 65;
  }
  if (report.is_open()) write_report(report.get(), {});
  report.reset();
  if (word == "die") ::raise(SIGABRT);
  if (word == "terminate") ::raise(SIGTERM);
  if (word == "silent") ::pause();
  if (word == "finish") {
    (void)store->write({EndRow{0, "finished", unix_now()}});
    return 0;
  }
  live(pulse.get());
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 64;
  const std::string role = words[1];
  if (role == "__controller") return controller(words[2]);
  KeeperLimits limits;
  limits.silence_max = 1s;
  return run_keeper(words[2], limits);
}
