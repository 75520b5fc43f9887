// Looking at jobs, and stopping them.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/io/clock.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/io/job_directory.h"
#include "launcher/cli/io/state_root.h"
#include "launcher/cli/job_id.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/status_json.h"
#include "launcher/views/status_view.h"
#include "launcher/views/table.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;
namespace control = launcher::controller;

constexpr int kUsage = 64, kBug = 70;
constexpr useconds_t kLookMicroseconds = 100'000;
constexpr milliseconds kAnswerLimit = 5s;
constexpr milliseconds kStreamLimit = std::chrono::hours(24 * 365);

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Prints what is asked for; nothing: a sentence was printed and `code` is set.
std::optional<JobDirectory> find_or_complain(const std::string& wanted, int& code) {
  const auto job = find_job_directory(wanted);
  if (!job) {
    code = complain(kBug, job.error().text());
    return std::nullopt;
  }
  if (!*job) {
    code = complain(kUsage, wanted.empty() ? "there is no job of this user on this machine"
                                           : "there is no job " + wanted);
  }
  return *job;
}

/// 0 reached, 1 cannot be reached any more or time over.
int wait_for_state(const JobDirectory& job, const StatusOptions& options) {
  const auto began = monotonic_now();
  while (true) {
    const auto status = read_status(job);
    const auto state = status ? status->value("state", "") : "";
    if (state == options.wait) return 0;
    if (is_over(state))
      return complain(1, job.id + " is " + state + ", it will not be " + options.wait);
    if (!is_kept(job)) return complain(1, job.id + " has no controller any more");
    if (options.timeout && monotonic_now() - began >= *options.timeout) {
      return complain(1, job.id + " is " + state + ", not " + options.wait + ", after the timeout");
    }
    ::usleep(kLookMicroseconds);
  }
}

void print_event(const json& event, bool as_json) {
  print((as_json ? event.dump() : views::event_line(event)) + "\n");
}

/// What is on disk after `after`; returns the newest id.
Result<std::uint64_t> print_events_of_disk(const JobDirectory& job, std::uint64_t after,
                                           bool as_json) {
  constexpr std::size_t kRowsMax = 10'000;
  auto reader = control::RunReader::open(job.path);
  if (!reader) {
    // Nothing has happened yet: the controller has not made the file, or is about to fill it.
    const bool begins = is_kept(job) || ::access((job.path + "/run.db").c_str(), F_OK) != 0;
    return begins ? Result<std::uint64_t>(after) : tl::unexpected(reader.error());
  }
  while (true) {
    const auto rows = reader->events(after, kRowsMax);
    if (!rows) return tl::unexpected(rows.error());
    for (const auto& row : *rows) {
      print_event(control::event_json(row), as_json);
      after = row.id;
    }
    if (rows->size() < kRowsMax) return after;
  }
}

}  // namespace

int show_status(const StatusOptions& options) {
  const auto found = find_job_directory(options.job);
  if (!found) return complain(kBug, found.error().text());
  if (!*found) {
    if (!options.job.empty()) return complain(kUsage, "there is no job " + options.job);
    print(options.json ? "null\n" : "there is no job of this user on this machine\n");
    return 0;
  }
  const auto& job = **found;
  if (!options.wait.empty()) return wait_for_state(job, options);
  while (true) {
    const auto status = read_status(job);
    if (!status) return complain(kBug, status.error().text());
    print(options.json ? status->dump() + "\n" : views::status_page(*status));
    if (!options.watch || is_over(status->value("state", "")) || !is_kept(job)) return 0;
    print("\n");
    ::usleep(10 * kLookMicroseconds);
  }
}

int list_jobs(const ListOptions& options) {
  const auto root = state_root();
  if (!root) return complain(kBug, root.error().text());
  auto ids = job_ids(*root);
  if (!ids) return complain(kBug, ids.error().text());
  std::sort(ids->begin(), ids->end());
  std::vector<std::vector<std::string>> rows{{"JOB", "ID", "STATE", "PROGRESS", "REASON"}};
  auto all = json::array();
  for (const auto& id : *ids) {
    const auto status = read_status({id, *root + "/" + id});
    const auto shown = status ? *status
                              : json{{"job", name_of(id).value_or(id)},
                                     {"id", id},
                                     {"state", "failed"},
                                     {"reason", status.error().text()}};
    rows.push_back({shown.value("job", ""), id, shown.value("state", ""),
                    views::progress_line(shown), shown.value("reason", "")});
    all.push_back({{"job", shown.value("job", "")},
                   {"id", id},
                   {"state", shown.value("state", "")},
                   {"reason", shown.value("reason", "")}});
  }
  if (options.json) {
    print(all.dump() + "\n");
  } else {
    print(rows.size() == 1 ? "there is no job of this user on this machine\n" : views::table(rows));
  }
  return 0;
}

int show_events(const EventsOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  std::uint64_t after = 0;
  if (!options.follow) {
    const auto printed = print_events_of_disk(*job, after, options.json);
    return printed ? 0 : complain(kBug, printed.error().text());
  }
  while (true) {
    auto client = ControlClient::connect(job->path);
    if (client && client->send({{"request", "events"}, {"after", after}, {"follow", true}})) {
      while (const auto line = client->receive(kStreamLimit)) {
        if (!line->contains("event")) continue;
        after = std::max(after, line->value("id", after));
        print_event(*line, options.json);
      }
    }
    if (!is_kept(*job)) {
      const auto printed = print_events_of_disk(*job, after, options.json);
      return printed ? 0 : complain(kBug, printed.error().text());
    }
    ::usleep(kLookMicroseconds);
  }
}

int show_logs(const LogsOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  json request = {{"request", "logs"}, {"follow", options.follow}};
  if (options.rank) request["rank"] = *options.rank;
  if (!options.host.empty()) request["host"] = options.host;
  if (options.generation) request["generation"] = *options.generation;
  auto client = ControlClient::connect(job->path);
  // A controller that is about to start, or to be started again.
  const auto began = monotonic_now();
  while (!client && is_kept(*job) && (options.follow || monotonic_now() - began < kAnswerLimit)) {
    ::usleep(kLookMicroseconds);
    client = ControlClient::connect(job->path);
  }
  if (!client) {
    const auto status = read_status(*job);
    std::string places;
    for (const auto& host : status ? status->value("hosts", json::array()) : json::array()) {
      if (!host.value("scratch", "").empty()) {
        places += "\n  " + host.value("name", "") + ":" + host.value("scratch", "") + "/logs";
      }
    }
    return complain(
        1, "no controller of " + job->id + " runs; the whole logs stand on the hosts" + places);
  }
  if (const auto sent = client->send(request); !sent) return complain(kBug, sent.error().text());
  while (const auto line = client->receive(kStreamLimit)) {
    if (line->contains("error") && (*line)["error"].is_string()) {
      return complain(kUsage, (*line)["error"].get<std::string>());
    }
    if (line->value("type", "") != "output") continue;
    auto text = line->value("text", "");
    if (options.rank) {
      print(text);
      continue;
    }
    const auto prefix =
        line->value("host", "") + ":" + std::to_string(line->value("rank", 0)) + " ";
    std::string prefixed;
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = std::min(text.find('\n', begin), text.size() - 1);
      prefixed += prefix + text.substr(begin, end + 1 - begin);
      begin = end + 1;
    }
    print(prefixed);
  }
  return 0;
}

int stop_job(const StopOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  if (!is_kept(*job)) {
    print(job->id + " does not run\n");
    return 0;
  }
  const auto answer = ask(
      job->path,
      {{"request", "stop"}, {"now", options.now}, {"preempted", false}, {"reason", "dlaunch stop"}},
      kAnswerLimit);
  if (!answer) return complain(kBug, answer.error().text());
  if (answer->contains("error")) return complain(kBug, answer->value("error", ""));
  while (options.wait && is_kept(*job)) ::usleep(kLookMicroseconds);
  if (const auto end = read_end(*job); options.wait && end) print(end->sentence + "\n");
  return 0;
}

}  // namespace dlaunch::launcher::cli
