// What is done about an incident: is it tried again, and how did the job come back?
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "rendezvous/command.h"
#include "supervisor/job/cause.h"

namespace dlaunch::supervisor::job {

/// The last word on a job that is not tried again.
struct Refusal {
  int code = 0;
  std::string sentence;
};

/// Everything that the answer rests on.
struct RetryInputs {
  bool trainer = true;
  Happening cause;
  bool users_error = false;            ///< the rule of user_error.h
  std::uint32_t without_progress = 0;  ///< generations in a row, this one included
  std::uint32_t without_progress_max = 3;
  std::uint32_t restarts_max = 10;
  std::uint32_t restarts_left = 0;
  nanoseconds restarts_window{};
  std::uint32_t free_retries = 0;  ///< in a row without progress, this one included
};

/// After so many in a row a free retry is no bad luck any more.
constexpr std::uint32_t kFreeRetriesMax = 10;

/// What came from outside costs no restart and says nothing about the job.
[[nodiscard]] bool is_free(const std::string& cause);
/// nullopt: try again.
[[nodiscard]] std::optional<Refusal> judge_retry(const RetryInputs& inputs);
/// How long to wait before the next try: storage gets time to come back.
[[nodiscard]] nanoseconds judge_pause(const std::string& cause, std::uint32_t free_retries);

struct Regrouping {
  std::string verdict;  ///< restart_workers, replace_host, shrink
  std::string what;     ///< "gpu05 takes the ranks of gpu03"
};
[[nodiscard]] Regrouping judge_regrouping(const rendezvous::Plan& before,
                                          const rendezvous::Plan& after,
                                          const std::function<std::string(HostId)>& name);

}  // namespace dlaunch::supervisor::job
