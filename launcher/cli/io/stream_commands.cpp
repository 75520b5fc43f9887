// What a job has to tell line by line, events and output, and stopping it.
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/io/clock.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/console.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/io/job_directory.h"
#include "launcher/controller/io/run_files.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/status_json.h"
#include "launcher/views/status_view.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;
using supervisor::job::ExitCode;
namespace control = launcher::controller;

constexpr useconds_t kLookMicroseconds = 100'000;
constexpr milliseconds kStreamLimit = std::chrono::hours(24 * 365);
// What a keeper needs to start a controller again, with run.db and names to look up.
constexpr nanoseconds kRestartLimit = 30s;
constexpr int kNotHere = 1;  // it is there, but cannot be had from here

enum class Streamed { done, broken, unread };

/// Sends the request and hands each line to `take`, which returns false when nobody reads it.
template <class Take>
Streamed stream(const JobDirectory& job, const json& request, milliseconds limit, Take take) {
  auto client = ControlClient::connect(job.path);
  if (!client || !client->send(request)) return Streamed::broken;
  while (const auto line = client->receive(limit)) {
    if (line->value("type", "") == "done") return Streamed::done;
    if (!take(*line)) return Streamed::unread;
  }
  return Streamed::broken;
}

/// Asks again while the controller is being started, or started again; `request()` says from where.
/// `broken`: what there is has to be had from the disk.
template <class Request, class Take>
Streamed stream_patiently(const JobDirectory& job, bool follow, Request request, Take take) {
  const auto limit = follow ? kStreamLimit : kAnswerLimit;
  const auto began = monotonic_now();
  while (true) {
    // Asked first: what ends in between has written all that it had to tell.
    const bool lives = is_kept_or_new(job);
    const auto streamed = stream(job, request(), limit, take);
    if (streamed != Streamed::broken) return streamed;
    const bool patient = follow || monotonic_now() - began < kAnswerLimit;
    if (!lives || !patient || lives_elsewhere(job)) return streamed;
    ::usleep(kLookMicroseconds);
  }
}

// ---- events

class EventPrinter {
 public:
  explicit EventPrinter(bool as_json) : as_json_(as_json) {}
  bool take(const json& event) {
    if (!event.contains("event")) return true;
    last_id_ = std::max(last_id_, event.value("id", last_id_));
    return print((as_json_ ? event.dump() : views::event_line(event)) + "\n");
  }
  /// What stands in run.db after what was printed.
  Result<void> take_from_disk(const JobDirectory& job) {
    constexpr std::size_t kRowsMax = 10'000;
    auto reader = control::RunReader::open(job.path);
    if (!reader) return tl::unexpected(reader.error());
    while (true) {
      const auto rows = reader->events(last_id_, kRowsMax);
      if (!rows) return tl::unexpected(rows.error());
      for (const auto& row : *rows) {
        if (!take(control::event_json(row))) return {};
      }
      if (rows->size() < kRowsMax) return {};
    }
  }
  [[nodiscard]] std::uint64_t last_id() const { return last_id_; }

 private:
  bool as_json_;
  std::uint64_t last_id_ = 0;
};

int events_of_disk(const JobDirectory& job, EventPrinter& printer) {
  const auto printed = printer.take_from_disk(job);
  if (printed) return 0;
  if (const auto elsewhere = lives_elsewhere(job)) {
    return complain(kNotHere, *elsewhere + "; ask for its events there");
  }
  // Nothing has happened yet: the controller has not made the file, or is about to fill it.
  const bool begins = ::access((job.path + "/run.db").c_str(), F_OK) != 0;
  return begins ? 0 : complain(ExitCode::storage, printed.error().text());
}

// ---- output

class OutputPrinter {
 public:
  explicit OutputPrinter(const LogsOptions& options) : options_(options) {}

  bool take(const json& line) {
    if (line.contains("error") && line["error"].is_string()) {
      const bool dropped = line.value("type", "") == "dropped";
      code_ = complain(dropped ? kNotHere : to_int(ExitCode::usage), line["error"]);
      return false;
    }
    if (line.value("type", "") != "output") return true;
    printed_ = true;
    const auto text = line.value("text", "");
    if (options_.rank) return print(text);
    const auto prefix = line.value("host", "") + ":" + std::to_string(line.value("rank", 0)) + " ";
    std::string prefixed;
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find('\n', begin), text.size() - 1);
      prefixed += prefix + text.substr(begin, end + 1 - begin);
      begin = end + 1;
    }
    return print(prefixed);
  }
  /// What was kept of the wanted generation, else of the newest with output; false: no such file.
  bool take_from_disk(const JobDirectory& job) {
    const auto generations = control::output_generations(job.path);
    if (generations.empty()) return false;
    const auto wanted = options_.generation ? Generation{*options_.generation} : generations.back();
    std::ifstream file(control::output_path(job.path, wanted));
    std::string text;
    while (std::getline(file, text)) {
      const auto line = json::parse(text, nullptr, false);
      if (!line.is_object()) continue;
      if (options_.rank && line.value("rank", 0U) != *options_.rank) continue;
      if (!options_.host.empty() && line.value("host", "") != options_.host) continue;
      if (!take(line)) break;
    }
    return printed_;
  }
  [[nodiscard]] bool printed() const { return printed_; }
  [[nodiscard]] int code() const { return code_; }

 private:
  const LogsOptions& options_;
  bool printed_ = false;
  int code_ = 0;
};

std::string places_of_logs(const JobDirectory& job) {
  const auto status = read_status(job);
  std::string places;
  for (const auto& host : status ? status->value("hosts", json::array()) : json::array()) {
    const auto scratch = host.value("scratch", "");
    if (!scratch.empty()) places += "\n  " + host.value("name", "") + ":" + scratch + "/logs";
  }
  return places;
}

/// Nothing more comes from a controller.
int logs_of_disk(const JobDirectory& job, OutputPrinter& printer) {
  if (const auto elsewhere = lives_elsewhere(job)) {
    return complain(kNotHere, *elsewhere + "; ask for its output there");
  }
  const bool had = printer.printed();
  const bool kept = had || printer.take_from_disk(job);
  if (printer.code() != 0 || had) return printer.code();
  const auto places = places_of_logs(job);
  if (places.empty() && !kept) return complain(0, "nothing is kept of its output");
  return complain(0, (kept ? std::string("this was the last of each rank")
                           : std::string("nothing of it is kept here")) +
                         "; the whole logs stand on the hosts:" + places);
}

int stop_elsewhere_or_bug(const JobDirectory& job, const std::string& sentence) {
  if (const auto elsewhere = lives_elsewhere(job)) {
    return complain(kNotHere, *elsewhere + "; stop it there");
  }
  return complain(ExitCode::bug, sentence);
}

}  // namespace

int show_events(const EventsOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  EventPrinter printer(options.json);
  const auto request = [&] {
    return json{{"request", "events"}, {"after", printer.last_id()}, {"follow", options.follow}};
  };
  const auto streamed = stream_patiently(*job, options.follow, request,
                                         [&](const json& line) { return printer.take(line); });
  return streamed == Streamed::broken ? events_of_disk(*job, printer) : 0;
}

int show_logs(const LogsOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  json request = {{"request", "logs"}, {"follow", options.follow}};
  if (options.rank) request["rank"] = *options.rank;
  if (!options.host.empty()) request["host"] = options.host;
  if (options.generation) request["generation"] = *options.generation;
  OutputPrinter printer(options);
  const auto streamed = stream_patiently(
      *job, options.follow, [&] { return request; },
      [&](const json& line) { return printer.take(line); });
  if (streamed == Streamed::broken) return logs_of_disk(*job, printer);
  // A controller knows what came since it was started; older generations are on disk.
  const bool any =
      streamed == Streamed::unread || printer.printed() || printer.take_from_disk(*job);
  return any ? printer.code() : complain(0, "there is no such output yet");
}

int stop_job(const StopOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  if (!is_kept_or_new(*job)) {
    (void)print(job->id + " does not run\n");
    return 0;
  }
  const json request = {
      {"request", "stop"}, {"now", options.now}, {"preempted", false}, {"reason", "dlaunch stop"}};
  // A controller that is being started, or started again, is asked when it is there.
  const auto began = monotonic_now();
  auto answer = ask(job->path, request, kAnswerLimit);
  while (!answer && is_kept_or_new(*job)) {
    if (monotonic_now() - began > kRestartLimit || lives_elsewhere(*job)) {
      return stop_elsewhere_or_bug(*job, answer.error().text());
    }
    ::usleep(kLookMicroseconds);
    answer = ask(job->path, request, kAnswerLimit);
  }
  if (answer && answer->contains("error")) {
    return complain(ExitCode::bug, answer->value("error", ""));
  }
  while (options.wait && is_kept(*job)) ::usleep(kLookMicroseconds);
  if (const auto end = read_end(*job); options.wait && end) (void)print(end->sentence + "\n");
  return 0;
}

}  // namespace dlaunch::launcher::cli
