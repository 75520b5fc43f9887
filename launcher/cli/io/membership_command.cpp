// Taking a host out of a running job, and letting it in again.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/io/clock.h"
#include "base/units.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/io/console.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/io/job_directory.h"

namespace dlaunch::launcher::cli {
namespace {

using nlohmann::json;
using supervisor::job::ExitCode;

constexpr useconds_t kLookMicroseconds = 100'000;
constexpr int kNotReached = 1;

/// How the host stands in the status; null where it is not in it.
json host_in(const json& status, const std::string& name) {
  const auto hosts = status.value("hosts", json::array());
  const auto found = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const json& host) { return host.value("name", "") == name; });
  return found == hosts.end() ? json() : *found;
}

bool is_done(const json& host, bool drain) {
  const auto state = host.value("state", "");
  if (drain) return state == "drained" && host.value("ranks", json::array()).empty();
  return state == "active" || state == "spare" || state == "ready";
}

int wait_until_done(const JobDirectory& job, const MembershipOptions& options) {
  const auto began = monotonic_now();
  while (true) {
    const bool lives = is_kept(job);
    const auto status = read_status(job);
    if (!status) return complain(ExitCode::bug, status.error().text());
    const auto host = host_in(*status, options.host);
    const auto state = host.value("state", "");
    if (is_done(host, options.drain)) {
      (void)print(options.host + " is " + state + "\n");
      return 0;
    }
    if (!lives || is_over(status->value("state", ""))) {
      return complain(kNotReached, job.id + " is over");
    }
    if (monotonic_now() - began >= options.timeout) {
      const auto reason = host.value("reason", "");
      return complain(kNotReached, options.host + " is still " + state +
                                       (reason.empty() ? "" : " (" + reason + ")") + " after " +
                                       format_duration(options.timeout) +
                                       "; the job goes on with it as it was told");
    }
    ::usleep(kLookMicroseconds);
  }
}

}  // namespace

int change_membership(const MembershipOptions& options) {
  int code = 0;
  const auto job = find_or_complain(options.job, code);
  if (!job) return code;
  const auto answer =
      ask(job->path, {{"request", options.drain ? "drain" : "add"}, {"host", options.host}},
          kAnswerLimit);
  if (!answer) {
    if (const auto elsewhere = lives_elsewhere(*job)) {
      return complain(kNotReached, *elsewhere + "; ask it there");
    }
    if (!is_kept(*job)) return complain(kNotReached, job->id + " does not run");
    return complain(ExitCode::bug, answer.error().text());
  }
  if (answer->contains("error")) return complain(ExitCode::usage, answer->value("error", ""));
  return options.wait ? wait_until_done(*job, options) : 0;
}

}  // namespace dlaunch::launcher::cli
