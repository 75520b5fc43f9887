// What a viewer prints and asks for, as a pure machine: the controller's lines and the user's
// signals in, text, requests and the exit code out.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"

namespace dlaunch::launcher::cli {

enum class ViewerMode {
  run,       ///< started the job: Ctrl-C stops it, checkpoint first
  attach,    ///< only looks: Ctrl-C detaches
  attached,  ///< the job is tied to this process: SIGTERM is a preemption
};

/// A line of the `watch` stream (docs/protocol.md, control socket).
struct Told {
  nlohmann::json message;
};
enum class UserSignal { interrupt, terminate, hang_up };
struct Signalled {
  UserSignal signal;
};
/// The controller cannot be reached for longer than its keeper needs to restart it.
struct ControllerGone {};
using ViewerEvent = std::variant<Told, Signalled, ControllerGone>;

struct Print {
  std::string text;
  bool error = false;  ///< to stderr
};
struct Request {
  nlohmann::json request;
};
struct Leave {
  int code = 0;
};
using ViewerCommand = std::variant<Print, Request, Leave>;

/// Owned by the viewer's loop. Progress is printed at most every two seconds; incidents, sentences
/// and the lines of rank 0 and of the first failing rank always.
class Viewer {
 public:
  Viewer(ViewerMode mode, std::string job) : mode_(mode), job_(std::move(job)) {}
  [[nodiscard]] std::vector<ViewerCommand> step(Instant now, const ViewerEvent& event);

 private:
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const Told& e);
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const Signalled& e);
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const ControllerGone& e);
  [[nodiscard]] std::vector<ViewerCommand> stop_more(bool preempted);

  ViewerMode mode_;
  std::string job_;
  int stops_asked_ = 0;
  std::optional<Instant> progress_printed_;
  std::string last_incident_;
};

}  // namespace dlaunch::launcher::cli
