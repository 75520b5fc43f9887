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
/// Neither a controller nor its keeper is there any more.
struct ControllerGone {};
/// The keeper lives, but no controller answers for longer than a restart takes.
struct ControllerSilent {};
/// Nobody reads what is printed.
struct TerminalGone {};
using ViewerEvent = std::variant<Told, Signalled, ControllerGone, ControllerSilent, TerminalGone>;

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
/// and the lines of rank 0 and of the first failing rank always. Steps are told once: by the
/// progress, and not by the trainer's lines about them; by a program's own lines, and not by the
/// progress while it prints.
class Viewer {
 public:
  Viewer(ViewerMode mode, std::string job, bool verbose = false)
      : mode_(mode), job_(std::move(job)), verbose_(verbose) {}
  [[nodiscard]] std::vector<ViewerCommand> step(Instant now, const ViewerEvent& event);

 private:
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const Told& e);
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const Signalled& e);
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const ControllerGone& e);
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const ControllerSilent& e);
  [[nodiscard]] std::vector<ViewerCommand> on(Instant now, const TerminalGone& e);
  [[nodiscard]] std::vector<ViewerCommand> on_state(const nlohmann::json& message);
  [[nodiscard]] std::vector<ViewerCommand> on_progress(Instant now, const nlohmann::json& message);
  [[nodiscard]] std::vector<ViewerCommand> on_incident(nlohmann::json incident);
  [[nodiscard]] std::vector<ViewerCommand> on_output(Instant now, const nlohmann::json& message);
  [[nodiscard]] std::vector<ViewerCommand> detach(int code) const;
  [[nodiscard]] std::vector<ViewerCommand> preempt();
  [[nodiscard]] std::vector<ViewerCommand> interrupt();

  ViewerMode mode_;
  std::string job_;
  bool verbose_;
  bool preempted_ = false;
  int interrupts_ = 0;
  bool table_printed_ = false;
  std::string state_;
  std::string state_printed_;
  std::string incident_sentence_;
  std::optional<Instant> progress_printed_;
  std::optional<Instant> output_printed_;
  std::string last_incident_;
};

}  // namespace dlaunch::launcher::cli
