#include "supervisor/job/hang_finder.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/units.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr int kStepTimesMax = 3;  // a rank is hung after three of its recent step times

/// By a signal or a debugger.
bool is_stopped(const RankStatus& rank) {
  const auto& letter = rank.status.process_state();
  return letter == "T" || letter == "t";
}

nanoseconds limit_of(const RankStatus& rank, const Ranks& ranks, const HangLimits& limits) {
  // Leave to take its time is for what runs: a stopped process writes and compiles nothing.
  if (!is_stopped(rank)) {
    if (rank.status.phase() == "checkpoint") return limits.checkpoint;
    if (!ranks.has_stepped()) return limits.first_step;  // it may compile, fill caches
  }
  const auto steps = from_seconds(ranks.step_seconds());
  return std::max(limits.floor, kStepTimesMax * steps);
}

bool can_hang(const RankStatus& rank, const HangLimits& limits) {
  return !rank.finished && (rank.status.has_step() || limits.has_steps) &&
         rank.status.state() == protocol::WORKER_RUNNING;
}

/// Smaller: more likely the one that the others wait for.
auto suspicion(const RankStatus& rank) {
  const auto& letter = rank.status.process_state();
  const bool stopped = is_stopped(rank) || letter == "D" || letter == "Z";
  // Programs have no sequence: who has done fewer steps holds the others up, or only itself.
  return std::tuple(!stopped, rank.status.sequence(), rank.status.entered(), rank.status.step(),
                    *rank.changed_at);
}

std::string what_it_does(const RankStatus& rank) {
  const auto& status = rank.status;
  if (is_stopped(rank)) return "its process is stopped (SIGSTOP or a debugger)";
  if (status.process_state() == "D") return "its process sleeps in the kernel (device or storage)";
  if (status.entered()) return "it waits in collective " + std::to_string(status.sequence());
  return "it is in phase " + (status.phase().empty() ? std::string("unknown") : status.phase()) +
         " and has not entered the collective that the others wait in";
}

}  // namespace

std::optional<Instant> hang_deadline(const Ranks& ranks, const HangLimits& limits) {
  std::optional<Instant> deadline;
  for (const auto& [number, rank] : ranks.all()) {
    if (!can_hang(rank, limits) || !rank.changed_at) continue;
    deadline = earlier(deadline, *rank.changed_at + limit_of(rank, ranks, limits));
  }
  return deadline;
}

std::optional<Happening> judge_hang(const Ranks& ranks, const HangLimits& limits, Instant now) {
  const RankStatus* culprit = nullptr;
  for (const auto& [number, rank] : ranks.all()) {
    if (!can_hang(rank, limits) || !rank.changed_at) continue;
    if (culprit == nullptr || suspicion(rank) < suspicion(*culprit)) culprit = &rank;
  }
  // Others may wait for long because the one they wait for has leave to take its time.
  if (culprit == nullptr || now < *culprit->changed_at + limit_of(*culprit, ranks, limits)) {
    return std::nullopt;
  }
  Happening happening;
  happening.weight = Weight::exception;
  happening.cause = "worker_hung";
  happening.host = culprit->host;
  happening.rank = Rank{culprit->status.rank()};
  happening.happened_at = *culprit->changed_at;
  happening.what = "rank " + std::to_string(culprit->status.rank()) + " has made no progress for " +
                   format_duration(now - *culprit->changed_at) + " since " +
                   (culprit->status.has_step() ? "step " + std::to_string(culprit->status.step())
                                               : std::string("the start")) +
                   ": " + what_it_does(*culprit);
  return happening;
}

}  // namespace dlaunch::supervisor::job
