// `dlaunch report`: what stands in run.db and metrics.db, made into a page, JSON or a picture.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/io/clock.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/console.h"
#include "launcher/cli/io/job_directory.h"
#include "launcher/controller/io/metrics.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/status_json.h"
#include "launcher/views/report.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;
using supervisor::job::ExitCode;
namespace control = launcher::controller;

constexpr std::size_t kPointsMax = 720;  // one for each unit of the picture's width
constexpr std::size_t kValidationsMax = 10'000;
constexpr int kNotHere = 1;

/// Those that a report is made of.
Result<std::vector<json>> read_events(control::RunReader& reader) {
  constexpr std::size_t kRowsMax = 10'000;
  std::vector<json> events;
  std::uint64_t last_id = 0;
  std::optional<control::EventRow> before;  // not kept so far
  while (true) {
    auto rows = reader.events(last_id, kRowsMax);
    if (!rows) return tl::unexpected(rows.error());
    for (auto& row : *rows) {
      last_id = row.id;
      if (row.event == "controller_restarted" && before) {
        events.push_back(control::event_json(*before));
      }
      before.reset();
      if (views::is_reported(row.event)) {
        events.push_back(control::event_json(row));
      } else {
        before = std::move(row);
      }
    }
    if (rows->size() < kRowsMax) break;
  }
  if (before) events.push_back(control::event_json(*before));
  return events;
}

Result<std::vector<json>> read_incidents(control::RunReader& reader) {
  const auto rows = reader.incidents();
  if (!rows) return tl::unexpected(rows.error());
  std::vector<json> incidents;
  for (const auto& row : *rows) {
    auto incident = json::parse(row.json, nullptr, /*allow_exceptions=*/false);
    if (incident.is_object()) incidents.push_back(std::move(incident));
  }
  return incidents;
}

/// None where the job never came to a step.
Result<std::vector<views::ReportPoint>> read_points(const JobDirectory& job) {
  const auto path = job.path + "/metrics.db";
  std::vector<views::ReportPoint> points;
  if (struct stat info{}; ::stat(path.c_str(), &info) != 0 && errno == ENOENT) return points;
  auto database = control::Sqlite::open(path, control::Sqlite::Mode::read);
  if (!database) return tl::unexpected(database.error());
  const auto buckets = control::read_metrics(*database, kPointsMax);
  if (!buckets) return tl::unexpected(buckets.error());
  for (const auto& bucket : *buckets) {
    points.push_back({bucket.time, bucket.loss, {}, bucket.step_seconds});
  }
  const auto validations = control::read_validations(*database, kValidationsMax);
  if (!validations) return tl::unexpected(validations.error());
  for (const auto& [time, loss] : *validations) points.push_back({time, {}, loss, 0});
  std::ranges::stable_sort(points, {}, &views::ReportPoint::time);
  return points;
}

Result<views::Report> read_report(const JobDirectory& job) {
  // Asked first: what ends in between has written its end.
  const bool lives = is_kept(job);
  const auto status = read_status(job);
  if (!status) return tl::unexpected(status.error());
  auto reader = control::RunReader::open(job.path);
  if (!reader) return tl::unexpected(reader.error());
  const auto events = read_events(*reader);
  if (!events) return tl::unexpected(events.error());
  const auto incidents = read_incidents(*reader);
  if (!incidents) return tl::unexpected(incidents.error());
  const auto points = read_points(job);
  if (!points) return tl::unexpected(points.error());
  const auto now = lives ? std::optional(unix_now()) : std::nullopt;
  return views::make_report(*status, *events, *incidents, *points, now);
}

Result<void> write_picture(const std::string& path, const views::Report& report) {
  std::ofstream file(path, std::ios::trunc);
  if (file) file << views::svg_page(report.charts);
  file.close();
  if (file) return {};
  return failure_from_errno(errno, "writing the picture " + path);
}

}  // namespace

int show_report(const ReportOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  const auto report = read_report(*job);
  if (!report) {
    if (const auto elsewhere = lives_elsewhere(*job)) {
      return complain(kNotHere, *elsewhere + "; ask for its report there");
    }
    return complain(ExitCode::storage, report.error().text());
  }
  if (!options.svg.empty()) {
    const auto written = write_picture(options.svg, *report);
    if (!written) return complain(ExitCode::storage, written.error().text());
  }
  (void)print(options.json ? views::report_json(*report).dump() + "\n"
                           : views::report_page(*report));
  return 0;
}

}  // namespace dlaunch::launcher::cli
