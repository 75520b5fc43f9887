// dlaunch with a controller that ends itself by a signal at a moment that a test names:
// DLAUNCH_KILL_AT = "before KIND NAME", "on disk NAME", "after KIND NAME" (some time after it was
// carried out), each with #N for the N-th time. Once: DLAUNCH_KILL_MARK is the file that says so.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/overloaded.h"
#include "launcher/controller/io/moments.h"

namespace dlaunch::launcher::controller {
namespace {

// Frames and rows that were given away are out by then.
constexpr itimerval kLater = {{0, 0}, {0, 30'000}};

std::string frame_name(const protocol::ControllerFrame& frame) {
  const auto* field = protocol::ControllerFrame::descriptor()->FindFieldByNumber(
      static_cast<int>(frame.body_case()));
  return field == nullptr ? "nothing" : field->name();
}

std::string name_of(const Command& command) {
  return std::visit(
      Overloaded{[](const SendToHosts& c) { return "send " + frame_name(c.frame); },
                 [](const FromJob& c) {
                   if (const auto* row = std::get_if<supervisor::job::Journal>(&c.command)) {
                     return "journal " + row->kind;
                   }
                   const auto* record = std::get_if<supervisor::job::Record>(&c.command);
                   return record != nullptr ? "record " + record->event : std::string("other");
                 },
                 [](const Ended&) { return std::string("the end"); },
                 [](const auto&) { return std::string("other"); }},
      command);
}

/// False: it happened in an earlier incarnation.
bool mark() {
  const char* path = std::getenv("DLAUNCH_KILL_MARK");
  return path == nullptr || ::open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0;
}

void pass(const std::string& moment) {
  static const std::string wanted = [] {
    const char* text = std::getenv("DLAUNCH_KILL_AT");
    return std::string(text == nullptr ? "" : text);
  }();
  static int seen = 0;
  const auto hash = wanted.find('#');
  const auto name = wanted.substr(0, hash);
  const int nth = hash == std::string::npos ? 1 : std::atoi(wanted.c_str() + hash + 1);
  const bool later = name.starts_with("after ");
  const auto plain = later ? "before " + name.substr(6) : name;
  if (moment != plain || ++seen != nth) return;
  if (!mark()) return;
  if (!later) ::kill(::getpid(), SIGKILL);
  ::setitimer(ITIMER_REAL, &kLater, nullptr);  // nobody handles SIGALRM: it ends the process
}

}  // namespace

void moment_before(const Command& command) { pass("before " + name_of(command)); }
void moment_on_disk(std::string_view kind) { pass("on disk " + std::string(kind)); }

}  // namespace dlaunch::launcher::controller
