#include "supervisor/job/verdict.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr nanoseconds kPauseFirst = 1s, kPauseMax = 30s;

/// "; its own exit code was 77", where the job returns another one.
std::string true_code(const Happening& cause, int own) {
  if (cause.signal != 0 || cause.code == 0 || cause.code == own) return "";
  return "; its own exit code was " + std::to_string(cause.code);
}

/// Trying again would give the same.
bool is_hopeless(const std::string& cause) {
  return cause == "bad_numbers" || cause == "config_error";
}

}  // namespace

bool is_free(const std::string& cause) {
  constexpr std::array kFree = {"host_lost", "link_down", "port_conflict",
                                "storage",   "preempted", "operator"};
  return std::any_of(kFree.begin(), kFree.end(), [&](const char* free) { return cause == free; });
}

std::optional<Refusal> judge_retry(const RetryInputs& inputs) {
  const auto& cause = inputs.cause;
  if (is_free(cause.cause)) {
    const bool by_hosts = cause.cause != "port_conflict" && cause.cause != "storage";
    if (by_hosts || inputs.free_retries <= kFreeRetriesMax) return std::nullopt;
    const auto code = cause.cause == "storage" ? ExitCode::storage : ExitCode::given_up;
    return Refusal{to_int(code), "it failed the same way " + std::to_string(inputs.free_retries) +
                                     " times in a row: given up"};
  }
  const int own = from_program(cause.code, cause.signal);
  if (inputs.trainer && cause.cause == "config_error") {
    return Refusal{to_int(ExitCode::wrong_file), "trying again would give the same"};
  }
  if (is_hopeless(cause.cause)) {
    return Refusal{own, "trying again would give the same" + true_code(cause, own)};
  }
  if (inputs.restarts_max == 0) {
    return Refusal{own, "restarts.process is 0, so it is not tried again" + true_code(cause, own)};
  }
  if (inputs.users_error) {
    return Refusal{own,
                   "it ended the same way twice, at the same place and with the same last line: "
                   "an error of the program, not worth another try" +
                       true_code(cause, own)};
  }
  if (inputs.without_progress >= inputs.without_progress_max) {
    return Refusal{to_int(ExitCode::given_up), std::to_string(inputs.without_progress) +
                                                   " generations in a row made no progress: given "
                                                   "up"};
  }
  if (inputs.restarts_left == 0) {
    return Refusal{to_int(ExitCode::given_up),
                   "the budget of " + std::to_string(inputs.restarts_max) + " restarts within " +
                       format_duration(inputs.restarts_window) + " is spent: given up"};
  }
  return std::nullopt;
}

nanoseconds judge_pause(const std::string& cause, std::uint32_t free_retries) {
  if (cause != "storage" || free_retries < 2) return 0ns;
  const auto doublings = std::min(free_retries - 2, 5U);
  return std::min(kPauseMax, kPauseFirst * (1U << doublings));
}

Regrouping judge_regrouping(const rendezvous::Plan& before, const rendezvous::Plan& after,
                            const std::function<std::string(HostId)>& name) {
  if (!after.replaced.empty()) {
    std::string what;
    for (const auto& [lost, replacement] : after.replaced) {
      what += (what.empty() ? "" : ", ") + name(replacement) + " takes the ranks of " + name(lost);
    }
    return {"replace_host", what};
  }
  if (after.members.size() < before.members.size()) {
    return {"shrink", "going on with " + std::to_string(after.members.size()) +
                          " hosts instead of " + std::to_string(before.members.size())};
  }
  return {"restart_workers", "the workers are restarted on the same hosts"};
}

}  // namespace dlaunch::supervisor::job
