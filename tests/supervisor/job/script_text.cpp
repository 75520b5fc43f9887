#include "tests/supervisor/job/script_text.h"

#include <cstdio>

namespace dlaunch::supervisor::job {
namespace {

using protocol::ControllerFrame;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

class Speaker {
 public:
  explicit Speaker(const std::map<HostId, std::string>& names) : names_(names) {}

  std::string operator()(const Send& send) const {
    std::string text = "to";
    for (const auto host : send.hosts) text += " " + names_.at(host);
    return text + ", g" + std::to_string(send.generation.value) + ": " + order(send.body);
  }
  std::string operator()(const Form& form) const {
    std::string text = "form";
    for (const auto host : form.without) text += " without " + names_.at(host);
    return text + ": " + form.reason;
  }
  std::string operator()(const CleanedHost& c) const { return "clean " + names_.at(c.host); }
  std::string operator()(const BlamedHost& c) const {
    return "blame " + names_.at(c.host) + (c.beyond_doubt ? " beyond doubt" : "") + ": " + c.reason;
  }
  std::string operator()(const DataLinkJudged& c) const {
    return "data link of " + names_.at(c.host) + (c.up ? " is up" : " is down: " + c.sentence);
  }
  std::string operator()(const Journal& c) const {
    return "journal #" + std::to_string(c.ticket) + " " + c.kind;
  }
  std::string operator()(const Record& c) const {
    std::string text = "record " + c.event;
    if (c.host) text += " " + names_.at(*c.host);
    if (c.rank) text += " rank " + std::to_string(c.rank->value);
    if (c.step) text += " step " + std::to_string(c.step->value);
    return c.detail.empty() ? text : text + ": " + c.detail;
  }
  std::string operator()(const IncidentChanged& c) const {
    const auto& incident = c.incident;
    std::string text = "incident " + std::to_string(incident.id) +
                       (incident.closed ? " closed" : " open") + " g" +
                       std::to_string(incident.generation.value) + " " + incident.cause;
    if (incident.host) text += " " + names_.at(*incident.host);
    if (incident.rank) text += " rank " + std::to_string(incident.rank->value);
    text += " [" + incident.verdict + "]";
    if (incident.lost_steps > 0) text += " lost " + std::to_string(incident.lost_steps);
    const auto& s = incident.seconds;
    if (incident.closed) {
      text += " detect " + number(s.detect) + " abort " + number(s.abort) + " replace " +
              number(s.replace) + " regroup " + number(s.regroup) + " restore " +
              number(s.restore) + " first_step " + number(s.first_step) + " total " +
              number(s.total);
    }
    text += ": " + incident.sentence;
    for (const auto& line : incident.last_lines) text += " | " + line;
    return text;
  }
  std::string operator()(const StateBecame& c) const {
    return std::string("state ") + to_string(c.state) + (c.reason.empty() ? "" : ": " + c.reason);
  }
  std::string operator()(const Finish& c) const {
    return "finish " + std::to_string(c.code) + " " + to_string(c.state) + ": " + c.sentence;
  }

 private:
  static std::string endpoints(const protocol::Endpoints& packed) {
    const auto told = std::to_string(packed.ports().size() / 2);
    if (packed.base() == 0) return told + " endpoints";
    return told + " endpoints changed since g" + std::to_string(packed.base());
  }
  static std::string order(const ControllerFrame& body) {
    switch (body.body_case()) {
      case ControllerFrame::kEvidenceAcknowledged:
        return "evidence " + std::to_string(body.evidence_acknowledged().number()) +
               " acknowledged";
      case ControllerFrame::kPrepare: {
        const auto& prepare = body.prepare();
        return "prepare ranks " + std::to_string(prepare.first_rank()) + ".." +
               std::to_string(prepare.first_rank() + prepare.workers() - 1) + " of " +
               std::to_string(prepare.world_size());
      }
      case ControllerFrame::kAssign: {
        const auto& assign = body.assign();
        return "assign, " + endpoints(assign.endpoints()) + ", " +
               (assign.has_restore_step() ? "restore " + std::to_string(assign.restore_step())
                                          : std::string("fresh")) +
               (assign.has_logical_batches()
                    ? ", " + std::to_string(assign.logical_batches()) + " batches"
                    : "");
      }
      case ControllerFrame::kGo:
        return "go";
      case ControllerFrame::kAbort:
        return "abort, " + body.abort().reason();
      case ControllerFrame::kStopWorkers:
        return body.stop_workers().checkpoint() ? "stop after a checkpoint" : "stop";
      case ControllerFrame::kCheckpointAt:
        return "checkpoint at the next step";
      case ControllerFrame::kCommit:
        return commit(body.commit());
      case ControllerFrame::kInspectCheckpoints:
        return "inspect checkpoints, leave mark " + body.inspect_checkpoints().mark();
      case ControllerFrame::kFindMark:
        return "find mark " + body.find_mark().mark();
      default:
        return "unknown";
    }
  }
  static std::string commit(const protocol::Commit& order) {
    std::string text = "commit step " + std::to_string(order.step()) + " of " +
                       std::to_string(order.files_size()) + " files";
    for (const auto step : order.delete_steps()) text += ", delete " + std::to_string(step);
    return text;
  }

  const std::map<HostId, std::string>& names_;
};

}  // namespace

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool begun = false;
  for (const char c : line) {
    const bool marks = quote == 0 ? c == '"' || c == '\'' : c == quote;
    if (marks) {
      quote = quote == 0 ? c : 0;
      begun = true;
    } else if (c == ' ' && quote == 0) {
      if (begun) words.push_back(std::exchange(word, {}));
      begun = false;
    } else {
      word.push_back(c);
      begun = true;
    }
  }
  if (begun) words.push_back(word);
  return words;
}

std::string say(const Command& command, const std::map<HostId, std::string>& host_names) {
  return std::visit(Speaker(host_names), command);
}

}  // namespace dlaunch::supervisor::job
