#include "simulation/gang.h"

#include <utility>

namespace dlaunch::simulation {

void Gang::later(nanoseconds delay, Rank rank, std::function<void()> action) {
  queue_.after(delay, [this, rank, action = std::move(action)] {
    if (alive_.contains(rank) && !hung_.contains(rank)) action();
  });
}

void Gang::start(Rank rank) {
  alive_.insert(rank);
  later(script_.start_time, rank, [this, rank] { say_(rank, Deed::ready, 0); });
}

void Gang::assign(Rank rank, std::uint32_t world_size, std::optional<std::uint64_t> restore_step) {
  if (!assigned_.insert(rank).second) return;
  world_size_ = world_size;
  step_ = restore_step.value_or(0);
  connect_when_complete();
}

void Gang::connect_when_complete() {
  if (assigned_.size() < world_size_ || broken_) return;
  for (const auto rank : assigned_) {
    later(5ms, rank, [this, rank] { say_(rank, Deed::connected, 0); });
    later(script_.restore_time, rank, [this, rank] { say_(rank, Deed::restored, step_); });
  }
}

void Gang::go(Rank rank) {
  going_.insert(rank);
  if (going_.size() == world_size_ && !std::exchange(training_, true)) train();
}

void Gang::die(Rank rank) {
  if (alive_.erase(rank) == 0) return;
  if (std::exchange(broken_, true)) return;
  if (assigned_.empty()) return;
  for (const auto other : alive_) {
    later(3ms, other, [this, other] { say_(other, Deed::peer_lost, step_); });
  }
}

void Gang::train() {
  queue_.after(script_.step_time, [this] {
    if (broken_) return;
    if (hung_.empty()) {
      finish_step();
    } else {
      train();
    }
  });
}

void Gang::finish_step() {
  ++step_;
  const bool last = step_ >= script_.steps || stop_asked_;
  const bool write = last || std::exchange(checkpoint_asked_, false) ||
                     (script_.checkpoint_every > 0 && step_ % script_.checkpoint_every == 0);
  const auto step = step_;
  for (const auto rank : std::set(alive_)) {
    say_(rank, Deed::stepped, step);
    if (write)
      later(script_.write_time, rank, [this, rank, step] { say_(rank, Deed::written, step); });
    if (last) {
      later(script_.write_time + 10ms, rank,
            [this, rank, step] { say_(rank, Deed::finished, step); });
    }
  }
  if (!last) train();
}

}  // namespace dlaunch::simulation
