#include "launcher/cli/viewer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "launcher/views/status_view.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;

constexpr nanoseconds kProgressEvery = 2s;
constexpr nanoseconds kTalksFor = 10s;       // a program that printed within tells its steps itself
constexpr int kHangUp = 1, kTerminate = 15;  // numbers of signals
constexpr int kBug = supervisor::job::to_int(supervisor::job::ExitCode::bug);

std::string text_of(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

/// "step 812/2000 …", as trainer/progress.cpp writes it.
bool is_step_of_trainer(std::string_view line) {
  constexpr std::string_view kStep = "step ";
  if (!line.starts_with(kStep)) return false;
  line.remove_prefix(kStep.size());
  const auto digits = line.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos && line[digits] == '/' &&
         line.find("tokens/s") != std::string_view::npos;
}

std::string without_steps_of_trainer(std::string_view text) {
  std::string rest;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1) + 1;
    if (!is_step_of_trainer(text.substr(0, end))) rest += text.substr(0, end);
    text.remove_prefix(end);
  }
  return rest;
}

}  // namespace

std::vector<ViewerCommand> Viewer::step(Instant now, const ViewerEvent& event) {
  return std::visit([&](const auto& e) { return on(now, e); }, event);
}

std::vector<ViewerCommand> Viewer::on(Instant now, const Told& e) {
  const auto type = text_of(e.message, "type");
  if (type == "say") return {Print{text_of(e.message, "sentence") + "\n"}};
  if (type == "state") return on_state(e.message);
  if (type == "progress") return on_progress(now, e.message);
  if (type == "incident") return on_incident(e.message.value("incident", json::object()));
  if (type == "output") return on_output(now, e.message);
  if (type == "ended") {
    const int code = e.message.value("code", kBug);
    const auto sentence = text_of(e.message, "sentence");
    return {Print{sentence.empty() ? "" : "dlaunch: " + sentence + "\n", code != 0}, Leave{code}};
  }
  return {};
}

std::vector<ViewerCommand> Viewer::on_state(const json& message) {
  const auto state = state_ = text_of(message, "state");
  // Its last word follows.
  if (state == "finished" || state == "stopped" || state == "failed") return {};
  const auto reason = text_of(message, "reason");
  const auto line = state + (reason.empty() ? "" : ": " + reason) + "\n";
  if (std::exchange(state_printed_, line) == line) return {};
  if (state == "recovering" && incident_sentence_.starts_with(reason)) return {};  // just said
  const bool table = state == "running" && message.contains("hosts") && !table_printed_;
  table_printed_ = table_printed_ || table;
  return {Print{(table ? views::start_page(message) : "") + line}};
}

std::vector<ViewerCommand> Viewer::on_progress(Instant now, const json& message) {
  if (!state_.empty() && state_ != "running") return {};  // of what was before
  if (progress_printed_ && now < *progress_printed_ + kProgressEvery) return {};
  const bool program = !message.contains("steps") || message["steps"].is_null();
  const bool talks = output_printed_ && now < *output_printed_ + kTalksFor;
  if (program && talks) return {};
  progress_printed_ = now;
  return {Print{views::progress_line(message) + "\n"}};
}

std::vector<ViewerCommand> Viewer::on_incident(json incident) {
  const bool closed = incident.value("closed", false);
  if (text_of(incident, "verdict").empty() && !closed) return {};  // its cause is looked for
  const auto key = incident.value("id", json()).dump() + text_of(incident, "verdict") +
                   text_of(incident, "sentence") + (closed ? "closed" : "");
  if (std::exchange(last_incident_, key) == key) return {};
  const auto sentence = text_of(incident, "sentence");
  if (closed) {
    incident.erase("last_lines");
    if (sentence == incident_sentence_) incident["sentence"] = "";
  }
  incident_sentence_ = sentence;
  return {Print{views::incident_text(incident) + "\n"}};
}

std::vector<ViewerCommand> Viewer::on_output(Instant now, const json& message) {
  auto text = text_of(message, "text");
  if (!verbose_) text = without_steps_of_trainer(text);
  if (text.empty()) return {};
  output_printed_ = now;
  return {Print{std::move(text)}};
}

std::vector<ViewerCommand> Viewer::on(Instant, const Signalled& e) {
  const bool tied = mode_ == ViewerMode::attached;
  switch (e.signal) {
    case UserSignal::hang_up:
      return tied ? preempt() : detach(supervisor::job::from_program(0, kHangUp));
    case UserSignal::terminate:
      return tied ? preempt() : detach(supervisor::job::from_program(0, kTerminate));
    case UserSignal::interrupt:
      return mode_ == ViewerMode::attach ? detach(0) : interrupt();
  }
  return {};
}

std::vector<ViewerCommand> Viewer::detach(int code) const {
  return {Print{"detached; the job goes on. Watch it again: dlaunch attach " + job_ +
                "; stop it: dlaunch stop " + job_ + "\n"},
          Leave{code}};
}

std::vector<ViewerCommand> Viewer::preempt() {
  if (std::exchange(preempted_, true)) return {};
  return {
      Print{"preempted: writing a checkpoint, then stopping\n"},
      Request{{{"request", "stop"}, {"now", false}, {"preempted", true}, {"reason", "preempted"}}}};
}

/// Only Ctrl-C counts here: however often a scheduler has signalled before, a person gets both.
std::vector<ViewerCommand> Viewer::interrupt() {
  ++interrupts_;
  if (interrupts_ == 1) {
    return {
        Print{"Ctrl-C: writing a checkpoint, then stopping; press Ctrl-C again to stop at once "
              "without one\n"},
        Request{{{"request", "stop"}, {"now", false}, {"preempted", false}, {"reason", "Ctrl-C"}}}};
  }
  if (interrupts_ == 2) {
    return {
        Print{"Ctrl-C: stopping at once\n"},
        Request{{{"request", "stop"}, {"now", true}, {"preempted", false}, {"reason", "Ctrl-C"}}}};
  }
  return {Print{"Ctrl-C: not waiting for the end; see it with dlaunch attach " + job_ + "\n"},
          Leave{supervisor::job::to_int(supervisor::job::ExitCode::stopped_now)}};
}

std::vector<ViewerCommand> Viewer::on(Instant, const ControllerSilent&) {
  return {Print{"dlaunch: the controller of " + job_ +
                    " does not answer; its keeper starts another. The workers go on meanwhile\n",
                true}};
}

/// As with a terminal that was closed; nothing can be said any more.
std::vector<ViewerCommand> Viewer::on(Instant now, const TerminalGone&) {
  auto commands = on(now, Signalled{UserSignal::hang_up});
  std::erase_if(commands, [](const auto& c) { return std::holds_alternative<Print>(c); });
  return commands;
}

std::vector<ViewerCommand> Viewer::on(Instant, const ControllerGone&) {
  return {Print{"dlaunch: the controller of " + job_ +
                    " and its keeper are gone; agents end by their lease. What is known stands in "
                    "`dlaunch status " +
                    job_ + "`; go on with `dlaunch resume " + job_ + "`\n",
                true},
          Leave{kBug}};
}

}  // namespace dlaunch::launcher::cli
