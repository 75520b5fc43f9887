#include "launcher/views/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/views/table.h"
#include "launcher/views/text.h"

namespace dlaunch::launcher::views {
namespace {

using nlohmann::json;

constexpr std::size_t kChartWidth = 72, kChartHeight = 10;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool ends_a_run(const std::string& event) {
  return event == "job_finished" || event == "job_stopped" || event == "job_failed";
}
bool begins_a_run(const std::string& event) {
  return event == "host_ready" || event == "controller_restarted";
}

struct Run {
  double begun = 0;
  std::optional<double> first_step;
  double ended = 0;
  std::vector<double> incidents;  ///< when each was opened
};

/// Cuts a job's events into runs, one event after the other.
class Runs {
 public:
  void add(const std::string& name, double at) {
    if (open_ && name == "controller_restarted") restart_ = Restart{open_->ended, at};
    if (!open_ && begins_a_run(name)) open_ = Run{at, {}, at, {}};
    if (!open_) return;  // what is told after an end
    if (name == "generation_adopted") restart_.reset();
    if (name == "generation_formed" && restart_) split();
    if (name == "first_step" && !open_->first_step) open_->first_step = at;
    if (name == "incident_opened") open_->incidents.push_back(at);
    open_->ended = at;
    if (ends_a_run(name)) close();
  }
  /// `last`: when the job was last heard of.
  [[nodiscard]] std::vector<Run> take(double last) {
    if (open_) {
      open_->ended = std::max(open_->ended, last);
      close();
    }
    return std::move(runs_);
  }

 private:
  struct Restart {
    double last_heard = 0;
    double at = 0;
  };
  /// The controller found nothing of the generation before it.
  void split() {
    const auto restart = *restart_;
    open_->ended = restart.last_heard;
    close();
    open_ = Run{restart.at, {}, restart.at, {}};
  }
  void close() {
    runs_.push_back(std::move(*open_));
    open_.reset();
    restart_.reset();
  }

  std::vector<Run> runs_;
  std::optional<Run> open_;
  std::optional<Restart> restart_;
};

/// Of the whole job.
double median_step_seconds(const std::vector<ReportPoint>& points) {
  std::vector<double> seconds;
  for (const auto& point : points) {
    if (point.step_seconds > 0) seconds.push_back(point.step_seconds);
  }
  return seconds.empty() ? 0 : median(std::move(seconds));
}

double phase_of(const json& incident, const char* phase) {
  const auto found = incident.find("seconds");
  return found != incident.end() && found->is_object() ? found->value(phase, 0.0) : 0;
}

CauseReport cause_report(const std::string& cause, const std::vector<const json*>& incidents) {
  CauseReport report;
  report.cause = cause;
  report.incidents = incidents.size();
  const auto all = [&](const char* phase) {
    std::vector<double> seconds;
    for (const auto* incident : incidents) seconds.push_back(phase_of(*incident, phase));
    return seconds;
  };
  for (std::size_t i = 0; i < kPhases.size(); ++i) report.phases[i] = median(all(kPhases[i]));
  const auto totals = all("total");
  report.total = median(totals);
  report.worst = *std::max_element(totals.begin(), totals.end());
  for (const auto* incident : incidents) {
    report.lost_steps += incident->value("lost_steps", std::uint64_t{0});
  }
  return report;
}

/// From the fault to the next new step, or, where none came, to the end of the run.
double seconds_lost(const json& incident, double opened, const Run& run) {
  const bool stepped = incident.value("closed", true) && phase_of(incident, "first_step") > 0;
  if (stepped) return phase_of(incident, "total");
  return std::max(0.0, run.ended - opened) + phase_of(incident, "detect");
}

TimeSpent time_of(const std::vector<Run>& runs, const std::vector<json>& incidents,
                  double step_seconds) {
  TimeSpent time;
  time.runs = runs.size();
  std::uint64_t lost_steps = 0;
  std::size_t next = 0;  // incidents are opened in the order of their numbers
  for (const auto& run : runs) {
    time.total += run.ended - run.begun;
    time.starting += run.first_step.value_or(run.ended) - run.begun;
    for (const auto opened : run.incidents) {
      if (next == incidents.size()) break;
      const auto& incident = incidents[next++];
      if (!run.first_step || opened < *run.first_step) continue;
      time.recovering += seconds_lost(incident, opened, run);
      lost_steps += incident.value("lost_steps", std::uint64_t{0});
    }
  }
  time.redoing = std::min(time.recovering, static_cast<double>(lost_steps) * step_seconds);
  return time;
}

std::vector<Chart> charts_of(const std::vector<ReportPoint>& points) {
  const auto begun = points.empty() ? 0 : points.front().time;
  const bool long_run = !points.empty() && points.back().time - begun > 2 * 3600;
  const double unit = long_run ? 3600 : 60;
  Chart loss{"loss", long_run ? "h" : "min", "", {{"loss", {}}, {"validation loss", {}}}};
  Chart steps{"step time", loss.x_unit, "s", {{"step time", {}}}};
  for (const auto& point : points) {
    const auto x = (point.time - begun) / unit;
    if (point.loss) loss.curves[0].points.push_back({x, *point.loss});
    if (point.validation_loss) loss.curves[1].points.push_back({x, *point.validation_loss});
    if (point.step_seconds > 0) steps.curves[0].points.push_back({x, point.step_seconds});
  }
  return {loss, steps};
}

std::string time_lines(const TimeSpent& time) {
  const auto goodput = time.goodput();
  if (!goodput) return "nothing has run yet\n";
  const auto share = [&](double seconds) {
    return format("%.2f s", seconds) + format(" (%.2f %%)", 100 * seconds / time.total);
  };
  return format("goodput  %.2f %% of ", 100 * *goodput) + format("%.2f s", time.total) +
         (time.runs > 1 ? " in " + std::to_string(time.runs) + " runs" : "") + "\n" +
         table({{"", "starting", share(time.starting)},
                {"", "recovering", share(time.recovering)},
                {"", "of it steps done again", share(time.redoing)}});
}

std::string cause_table(const Report& report) {
  if (report.causes.empty()) return "no incident has been recovered from\n";
  std::vector<std::vector<std::string>> rows{{"CAUSE", "COUNT", "LOST STEPS", "MEDIAN", "WORST",
                                              "DETECT", "ABORT", "REPLACE", "REGROUP", "RESTORE",
                                              "FIRST STEP"}};
  for (const auto& cause : report.causes) {
    rows.push_back({cause.cause, std::to_string(cause.incidents), std::to_string(cause.lost_steps),
                    format("%.2f s", cause.total), format("%.2f s", cause.worst)});
    for (const auto seconds : cause.phases) rows.back().push_back(format("%.2f", seconds));
  }
  return table(rows);
}

}  // namespace

bool is_reported(const std::string& event) {
  return ends_a_run(event) || begins_a_run(event) || event == "generation_adopted" ||
         event == "generation_formed" || event == "first_step" || event == "incident_opened";
}

double TimeSpent::productive() const { return std::max(0.0, total - starting - recovering); }
std::optional<double> TimeSpent::goodput() const {
  if (total <= 0) return std::nullopt;
  return productive() / total;
}

Report make_report(const json& status, const std::vector<json>& events,
                   const std::vector<json>& incidents, const std::vector<ReportPoint>& points,
                   std::optional<double> now) {
  Report report;
  report.job = status.value("job", "");
  report.id = status.value("id", "");
  report.state = status.value("state", "");
  Runs runs;
  for (const auto& event : events) runs.add(event.value("event", ""), event.value("time", 0.0));
  const auto last = now.value_or(points.empty() ? 0 : points.back().time);
  report.time = time_of(runs.take(last), incidents, median_step_seconds(points));
  std::map<std::string, std::vector<const json*>> by_cause;
  for (const auto& incident : incidents) {
    if (incident.value("closed", true)) {
      by_cause[incident.value("cause", "unknown")].push_back(&incident);
    } else {
      ++report.open_incidents;
    }
  }
  for (const auto& [cause, all] : by_cause) report.causes.push_back(cause_report(cause, all));
  std::stable_sort(report.causes.begin(), report.causes.end(),
                   [](const auto& a, const auto& b) { return a.incidents > b.incidents; });
  report.charts = charts_of(points);
  return report;
}

std::string report_page(const Report& report) {
  auto text = "job " + report.job + "  id " + report.id + "  " + report.state + "\n" +
              time_lines(report.time) + "\n" + cause_table(report);
  if (report.open_incidents > 0) text += std::to_string(report.open_incidents) + " still open\n";
  for (const auto& chart : report.charts) {
    text += "\n" + text_chart(chart, kChartWidth, kChartHeight);
  }
  return text;
}

json report_json(const Report& report) {
  auto causes = json::array();
  for (const auto& cause : report.causes) {
    json seconds = {{"total", cause.total}, {"worst", cause.worst}};
    for (std::size_t i = 0; i < kPhases.size(); ++i) seconds[kPhases[i]] = cause.phases[i];
    causes.push_back({{"cause", cause.cause},
                      {"incidents", cause.incidents},
                      {"lost_steps", cause.lost_steps},
                      {"seconds", std::move(seconds)}});
  }
  const auto goodput = report.time.goodput();
  return {{"schema", 1},
          {"job", report.job},
          {"id", report.id},
          {"state", report.state},
          {"runs", report.time.runs},
          {"goodput", goodput ? json(*goodput) : json(nullptr)},
          {"seconds",
           {{"total", report.time.total},
            {"productive", report.time.productive()},
            {"starting", report.time.starting},
            {"recovering", report.time.recovering},
            {"redoing", report.time.redoing}}},
          {"causes", std::move(causes)},
          {"open_incidents", report.open_incidents}};
}

}  // namespace dlaunch::launcher::views
