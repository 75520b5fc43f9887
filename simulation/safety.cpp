#include "simulation/safety.h"

#include <algorithm>
#include <utility>

#include "supervisor/job/verdict.h"

namespace dlaunch::simulation {
namespace {

std::string say(HostId host) { return "h" + std::to_string(host.value); }
std::string say(Rank rank, Generation generation) {
  return "rank " + std::to_string(rank.value) + " of generation " +
         std::to_string(generation.value);
}

}  // namespace

void Safety::broken(std::string rule) {
  if (broken_.size() < kBrokenKept) broken_.push_back(std::move(rule));
}

void Safety::worker_started(HostId host, Rank rank, Generation generation, Generation seen) {
  if (generation < seen) {
    broken("S2: " + say(host) + " saw generation " + std::to_string(seen.value) + " and starts " +
           say(rank, generation));
  }
  if (setting_.program) {
    // The oldest that lives comes first.
    if (!live_.empty() && live_.begin()->first < generation) {
      const auto& [older, living] = *live_.begin();
      const auto one = std::find_if(living.on.begin(), living.on.end(),
                                    [](const auto& where) { return where.has_value(); });
      const Rank still{static_cast<std::uint32_t>(one - living.on.begin())};
      broken("S8: " + say(rank, generation) + " starts on " + say(host) + " while " +
             say(still, older) + " still lives on " + say(**one));
    }
  }
  auto& living = live_[generation];
  if (rank.value >= living.on.size()) living.on.resize(rank.value + 1);
  auto& where = living.on[rank.value];
  if (where) {
    broken("S1: " + say(rank, generation) + " lives on " + say(*where) + " and on " + say(host));
    return;
  }
  where = host;
  ++living.count;
}

void Safety::worker_ended(Rank rank, Generation generation) {
  const auto found = live_.find(generation);
  if (found == live_.end() || rank.value >= found->second.on.size()) return;
  if (!std::exchange(found->second.on[rank.value], std::nullopt)) return;
  if (--found->second.count == 0) live_.erase(found);
}

void Safety::assigned(HostId host, Rank rank, bool consistent) {
  if (consistent) return;
  broken("S3: what " + say(host) + " tells rank " + std::to_string(rank.value) +
         " does not fit to what the others are told");
}

void Safety::go(Generation generation, bool complete) {
  if (complete) return;
  broken("S3: generation " + std::to_string(generation.value) + " goes before all are assigned");
}

void Safety::published(HostId host, Generation generation, std::uint64_t step) {
  if (generation < newest_publisher_) {
    broken("S1: generation " + std::to_string(generation.value) + " publishes step " +
           std::to_string(step) + " on " + say(host) + " after generation " +
           std::to_string(newest_publisher_.value) + " did");
  }
  newest_publisher_ = std::max(newest_publisher_, generation);
}

void Safety::recorded(Instant now, const supervisor::job::Record& record) {
  if (record.event == "abort_ordered") {
    aborting_ = true;
    failed_ = false;
  }
  if (record.event == "workers_stopped") {
    aborting_ = false;
    deciding_ = true;
  }
  if (record.event == "generation_formed") count_restart(now);
  if (record.event == "checkpoint_committed" && !spends_.empty()) spends_.pop_front();
}

void Safety::stepped() {
  if (std::exchange(deciding_, false) && incident_) decided_by_ = incident_->newest_cause;
}

/// Counted by what can be seen from outside: a generation that follows a fault that is not free.
void Safety::count_restart(Instant now) {
  if (!std::exchange(failed_, false)) return;
  if (!incident_ || incident_->closed || supervisor::job::is_free(decided_by_)) return;
  while (!spends_.empty() && spends_.front() + setting_.restarts_window <= now) {
    spends_.pop_front();
  }
  spends_.push_back(now);
  if (spends_.size() > setting_.restarts_max) {
    broken("S4: " + std::to_string(spends_.size()) + " restarts within the window, " +
           std::to_string(setting_.restarts_max) + " are allowed");
  }
}

}  // namespace dlaunch::simulation
