// Looking at jobs: status and list.
#include <unistd.h>

#include <algorithm>

#include "base/io/clock.h"
#include "base/units.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/console.h"
#include "launcher/cli/io/job_directory.h"
#include "launcher/cli/io/state_root.h"
#include "launcher/cli/job_id.h"
#include "launcher/views/status_view.h"
#include "launcher/views/table.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;
using supervisor::job::ExitCode;

constexpr useconds_t kLookMicroseconds = 100'000;
constexpr int kNotReached = 1;

/// 0 reached, 1 cannot be reached any more or time over.
int wait_for_state(const JobDirectory& job, const StatusOptions& options) {
  const auto began = monotonic_now();
  while (true) {
    // Asked first: what ends in between has written its last state.
    const bool lives = is_kept_or_new(job);
    const auto read = read_state(job);
    const auto state = read ? *read : "";
    if (state == options.wait) return 0;
    if (is_over(state)) {
      return complain(kNotReached, job.id + " is " + state + ", it will not be " + options.wait);
    }
    if (!lives) {
      return complain(kNotReached, job.id + " has no controller any more, it will not be " +
                                       options.wait + " unless it is resumed");
    }
    if (options.timeout && monotonic_now() - began >= *options.timeout) {
      return complain(kNotReached, job.id + " is " + state + ", not " + options.wait + ", after " +
                                       format_duration(*options.timeout));
    }
    ::usleep(kLookMicroseconds);
  }
}

int no_job(const StatusOptions& options) {
  if (!options.job.empty()) return complain(ExitCode::usage, "there is no job " + options.job);
  if (!options.wait.empty()) return complain(kNotReached, kNoJob);
  (void)print(options.json ? "null\n" : std::string(kNoJob) + "\n");
  return 0;
}

}  // namespace

int show_status(const StatusOptions& options) {
  const auto found = find_job_directory(options.job);
  if (!found) return complain(ExitCode::bug, found.error().text());
  if (!*found) return no_job(options);
  const auto& job = **found;
  const int code = options.wait.empty() ? 0 : wait_for_state(job, options);
  if (!options.wait.empty() && !options.json) return code;
  const bool clears = options.watch && !options.json && ::isatty(STDOUT_FILENO) == 1;
  while (true) {
    const bool lives = is_kept_or_new(job);
    const auto status = read_status(job);
    if (!status) return complain(ExitCode::bug, status.error().text());
    const auto page = options.json ? status->dump() + "\n" : views::status_page(*status);
    if (!print((clears ? "\x1b[H\x1b[2J" : "") + page)) return code;
    if (!options.watch || is_over(status->value("state", "")) || !lives) return code;
    if (!options.json && !clears) (void)print("\n");
    ::usleep(10 * kLookMicroseconds);
  }
}

int list_jobs(const ListOptions& options) {
  const auto root = state_root();
  if (!root) return complain(ExitCode::storage, root.error().text());
  auto ids = job_ids(*root);
  if (!ids) return complain(ExitCode::storage, ids.error().text());
  sort_by_age(*ids);
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
    (void)print(all.dump() + "\n");
  } else {
    (void)print(rows.size() == 1 ? std::string(kNoJob) + "\n" : views::table(rows));
  }
  return 0;
}

}  // namespace dlaunch::launcher::cli
