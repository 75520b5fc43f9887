#include "supervisor/job/ranks.h"

#include <algorithm>
#include <utility>

namespace dlaunch::supervisor::job {

void Ranks::begin_generation(const rendezvous::Plan& plan, Instant now) {
  ranks_.clear();
  of_host_.clear();
  at_step_.clear();
  for (const auto& member : plan.members) {
    of_host_[member.host] = {member.first_rank, Rank{member.first_rank.value + member.workers}};
    for (std::uint32_t i = 0; i < member.workers; ++i) {
      RankStatus rank;
      rank.host = member.host;
      rank.changed_at = now;
      rank.status.set_rank(member.first_rank.value + i);
      ranks_[Rank{member.first_rank.value + i}] = std::move(rank);
    }
  }
  without_step_ = static_cast<std::uint32_t>(ranks_.size());
}

void Ranks::heard(HostId host, const protocol::WorkerStatus& status, Instant now) {
  const auto found = ranks_.find(Rank{status.rank()});
  if (found == ranks_.end() || found->second.host != host) return;
  auto& known = found->second;
  const auto& old = known.status;
  const bool stepped = status.has_step() && (!old.has_step() || status.step() > old.step());
  const bool changed = stepped || status.phase() != old.phase() ||
                       status.sequence() != old.sequence() || status.state() != old.state();
  // The agent says how long ago it was, so that a heartbeat's delay is not counted as life.
  const auto ago = from_seconds(status.since_progress_seconds());
  if (std::exchange(known.taken_over, false)) {
    known.changed_at = now - ago;
  } else if (changed) {
    known.changed_at = std::max(known.changed_at.value_or(now), now - ago);
  }
  const bool knew = old.has_step();
  const auto before = old.step();
  if (stepped) {
    const bool ran = old.state() == protocol::WORKER_RUNNING;
    has_stepped_ = has_stepped_ || (ran && status.state() == protocol::WORKER_RUNNING);
    completed(known, status.step());
  }
  // The first word to a controller that took over tells a time without a new step.
  if (status.rank() == 0 && status.step_seconds() > 0 && (stepped || step_seconds_.empty())) {
    step_seconds_.push_back(status.step_seconds());
    if (step_seconds_.size() > kStepTimesKept) step_seconds_.pop_front();
  }
  known.status = status;
  if (status.has_loss() && status.has_step()) known.loss_step = Step{status.step()};
  if (!stepped && knew) known.status.set_step(before);  // steps never go back
}

void Ranks::completed(RankStatus& known, std::uint64_t step) {
  if (!known.status.has_step()) {
    --without_step_;
  } else if (step <= known.status.step()) {
    return;  // steps never go back
  } else if (--at_step_[known.status.step()] == 0) {
    at_step_.erase(known.status.step());
  }
  ++at_step_[step];
  known.status.set_step(step);
}

void Ranks::reached(Step step) {
  for (auto& [rank, known] : ranks_) completed(known, step.value);
}

void Ranks::ended(Rank rank, std::optional<Step> step, bool properly) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  auto& known = found->second;
  if (step) completed(known, step->value);
  known.finished = known.finished || properly;
  known.status.set_state(protocol::WORKER_EXITED);
}

void Ranks::host_ended(HostId host) {
  const auto of = of_host_.find(host);
  if (of == of_host_.end()) return;
  for (auto rank = of->second.first; rank < of->second.second; ++rank.value) ended(rank, {}, false);
}

void Ranks::host_gone(HostId host) {
  const auto of = of_host_.find(host);
  if (of == of_host_.end()) return;
  for (auto rank = of->second.first; rank < of->second.second; ++rank.value) {
    ranks_.at(rank).status.set_state(protocol::WORKER_ABSENT);
    ranks_.at(rank).status.set_pid(0);
  }
}

bool Ranks::is_saving() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    return !entry.second.finished && entry.second.status.phase() == "checkpoint";
  });
}

void Ranks::go(Instant since) {
  for (auto& [rank, known] : ranks_) {
    known.changed_at = since;
    known.taken_over = false;
  }
}

void Ranks::taken_over() {
  for (auto& [rank, known] : ranks_) known.taken_over = true;
}

bool Ranks::all_finished() const {
  return !ranks_.empty() && std::all_of(ranks_.begin(), ranks_.end(),
                                        [](const auto& entry) { return entry.second.finished; });
}

bool Ranks::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    return entry.second.status.state() == protocol::WORKER_EXITED;
  });
}

HostId Ranks::host_of(Rank rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? HostId{} : found->second.host;
}

std::optional<Step> Ranks::step() const {
  if (without_step_ > 0 || at_step_.empty()) return std::nullopt;
  return Step{at_step_.begin()->first};
}

std::optional<double> Ranks::loss() const {
  if (ranks_.empty() || !ranks_.begin()->second.status.has_loss()) return std::nullopt;
  return ranks_.begin()->second.status.loss();
}

std::optional<Step> Ranks::loss_step() const {
  return ranks_.empty() ? std::nullopt : ranks_.begin()->second.loss_step;
}

double Ranks::step_seconds() const {
  if (step_seconds_.empty()) return 0;
  auto sorted = step_seconds_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

double Ranks::tokens_per_second() const {
  const auto seconds = step_seconds();
  if (seconds <= 0 || ranks_.empty()) return 0;
  return static_cast<double>(ranks_.begin()->second.status.tokens()) / seconds;
}

}  // namespace dlaunch::supervisor::job
