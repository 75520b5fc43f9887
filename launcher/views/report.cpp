#include "launcher/views/report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "launcher/views/table.h"

namespace dlaunch::launcher::views {
namespace {

using nlohmann::json;

constexpr std::size_t kChartWidth = 72, kChartHeight = 10;

std::string format(const char* pattern, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value);
  return text.data();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// `from`: its first event; `to`: behind its last one.
double seconds_to_first_step(const std::vector<json>& events, std::size_t from, std::size_t to,
                             double ended) {
  const auto begun = events[from].value("time", 0.0);
  for (auto i = from; i < to; ++i) {
    if (events[i].value("event", "") == "first_step") return events[i].value("time", begun) - begun;
  }
  return ended - begun;
}

void add_run(const std::vector<json>& events, std::size_t from, std::size_t to, double ended,
             TimeSpent& time) {
  ++time.runs;
  time.total += ended - events[from].value("time", 0.0);
  time.starting += seconds_to_first_step(events, from, to, ended);
}

TimeSpent runs_of(const std::vector<json>& events, std::optional<double> now) {
  TimeSpent time;
  std::size_t from = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool last = i + 1 == events.size();
    const bool ends = ends_a_run(events[i].value("event", ""));
    if (!ends && !last) continue;
    const auto at = events[i].value("time", 0.0);
    add_run(events, from, i + 1, !ends && now ? std::max(*now, at) : at, time);
    from = i + 1;
  }
  return time;
}

/// Of the present speed: a job whose steps changed their length is known no better.
double recent_step_seconds(const std::vector<ReportPoint>& points) {
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

std::vector<Chart> charts_of(const std::vector<ReportPoint>& points) {
  const auto begun = points.empty() ? 0 : points.front().time;
  const bool long_run = !points.empty() && points.back().time - begun > 2 * 3600;
  const double unit = long_run ? 3600 : 60;
  Chart loss{"loss", long_run ? "h" : "min", "", {{"loss", {}}, {"validation loss", {}}}};
  Chart steps{"step time", loss.x_unit, "s", {{"step time", {}}}};
  for (const auto& point : points) {
    const auto x = (point.time - begun) / unit;
    if (point.loss) loss.curves[0].points.push_back({x, *point.loss});
    // Marks stand where a value changed: between two validations it is only repeated.
    auto& marks = loss.curves[1].points;
    if (point.validation_loss && (marks.empty() || marks.back().y != *point.validation_loss)) {
      marks.push_back({x, *point.validation_loss});
    }
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
                {"", "steps done again", share(time.redoing)}});
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

bool ends_a_run(const std::string& event) {
  return event == "job_finished" || event == "job_stopped" || event == "job_failed";
}

double TimeSpent::productive() const {
  return std::max(0.0, total - starting - recovering - redoing);
}
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
  report.time = runs_of(events, now);
  std::map<std::string, std::vector<const json*>> by_cause;
  std::uint64_t lost_steps = 0;
  for (const auto& incident : incidents) {
    if (!incident.value("closed", true)) {
      ++report.open_incidents;
      continue;
    }
    by_cause[incident.value("cause", "unknown")].push_back(&incident);
    report.time.recovering += phase_of(incident, "total");
    lost_steps += incident.value("lost_steps", std::uint64_t{0});
  }
  report.time.redoing = static_cast<double>(lost_steps) * recent_step_seconds(points);
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
