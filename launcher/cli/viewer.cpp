#include "launcher/cli/viewer.h"

#include <utility>

#include "launcher/views/status_view.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;

constexpr nanoseconds kProgressEvery = 2s;
constexpr int kHangUpCode = 128 + 1;
constexpr int kTerminateCode = 128 + 15;
constexpr int kBugCode = 70;

std::string text_of(const json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::vector<ViewerCommand> Viewer::step(Instant now, const ViewerEvent& event) {
  return std::visit([&](const auto& e) { return on(now, e); }, event);
}

std::vector<ViewerCommand> Viewer::on(Instant now, const Told& e) {
  const auto type = text_of(e.message, "type");
  if (type == "say") return {Print{text_of(e.message, "sentence") + "\n"}};
  if (type == "state") {
    const auto reason = text_of(e.message, "reason");
    return {Print{text_of(e.message, "state") + (reason.empty() ? "" : ": " + reason) + "\n"}};
  }
  if (type == "progress") {
    if (progress_printed_ && now < *progress_printed_ + kProgressEvery) return {};
    progress_printed_ = now;
    return {Print{views::progress_line(e.message) + "\n"}};
  }
  if (type == "incident") {
    auto incident = e.message.value("incident", json::object());
    const bool closed = incident.value("closed", false);
    if (text_of(incident, "verdict").empty() && !closed)
      return {};  // the cause is still looked for
    const auto key = incident.value("id", json()).dump() + text_of(incident, "verdict") +
                     text_of(incident, "sentence") + (closed ? "closed" : "");
    if (std::exchange(last_incident_, key) == key) return {};
    if (closed) incident.erase("last_lines");
    return {Print{views::incident_text(incident) + "\n"}};
  }
  if (type == "output") return {Print{text_of(e.message, "text")}};
  if (type == "ended") {
    const int code = e.message.value("code", kBugCode);
    const auto sentence = text_of(e.message, "sentence");
    return {Print{sentence.empty() ? "" : "dlaunch: " + sentence + "\n", code != 0}, Leave{code}};
  }
  return {};
}

std::vector<ViewerCommand> Viewer::on(Instant, const Signalled& e) {
  const auto detach = [&](int code) -> std::vector<ViewerCommand> {
    return {Print{"detached; the job goes on. Watch it again: dlaunch attach " + job_ +
                  "; stop it: dlaunch stop " + job_ + "\n"},
            Leave{code}};
  };
  switch (e.signal) {
    case UserSignal::hang_up:
      return mode_ == ViewerMode::attached ? stop_more(true) : detach(kHangUpCode);
    case UserSignal::terminate:
      return mode_ == ViewerMode::attached ? stop_more(true) : detach(kTerminateCode);
    case UserSignal::interrupt:
      return mode_ == ViewerMode::attach ? detach(0) : stop_more(false);
  }
  return {};
}

std::vector<ViewerCommand> Viewer::stop_more(bool preempted) {
  ++stops_asked_;
  if (stops_asked_ == 1) {
    const std::string why = preempted ? "preempted" : "Ctrl-C";
    return {
        Print{why + ": writing a checkpoint, then stopping; " +
              (preempted ? "" : "press Ctrl-C again to stop at once without one") + "\n"},
        Request{{{"request", "stop"}, {"now", false}, {"preempted", preempted}, {"reason", why}}}};
  }
  if (stops_asked_ > 2 || preempted) return {};
  return {
      Print{"Ctrl-C: stopping at once\n"},
      Request{{{"request", "stop"}, {"now", true}, {"preempted", false}, {"reason", "Ctrl-C"}}}};
}

std::vector<ViewerCommand> Viewer::on(Instant, const ControllerGone&) {
  return {Print{"dlaunch: the controller of " + job_ +
                    " and its keeper are gone; agents end by their lease. What is known stands in "
                    "`dlaunch status " +
                    job_ + "`; go on with `dlaunch resume " + job_ + "`\n",
                true},
          Leave{kBugCode}};
}

}  // namespace dlaunch::launcher::cli
