#include "simulation/gang.h"

#include <algorithm>
#include <utility>

namespace dlaunch::simulation {
namespace {
constexpr nanoseconds kPeerNoticeMin = 3ms;  // a closed socket, then the collective ends
constexpr nanoseconds kPeerNoticeMax = 40ms;
constexpr nanoseconds kConnectTime = 5ms;
}  // namespace

template <class Call>
void Gang::later(nanoseconds delay, Rank rank, Call action) {
  queue_.after(delay, [this, rank, action] {
    if (is_alive(rank) && !is_hung(rank)) action();
  });
}

template <class Call>
void Gang::each_alive(Call call) {
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].alive) call(Rank{i});
  }
}

void Gang::start(Rank rank) {
  if (rank.value >= ranks_.size()) ranks_.resize(rank.value + 1);
  alive_count_ += std::exchange(ranks_[rank.value].alive, true) ? 0 : 1;
  const auto time = script_.start_time + rng_.between(0ns, script_.start_time / 4);
  later(time, rank, [this, rank] { hands_.say(rank, Deed::ready, {}); });
}

bool Gang::assign(Rank rank, std::uint32_t world_size, std::optional<std::uint64_t> step) {
  if (assigned_count_ == 0) {
    world_size_ = world_size;
    first_step_ = base_step_ = step.value_or(0);
  }
  const bool same = world_size_ == world_size && first_step_ == step.value_or(0);
  if (!same || rank.value >= world_size) return false;
  if (ranks_.size() < world_size) ranks_.resize(world_size);
  if (std::exchange(ranks_[rank.value].assigned, true)) return true;
  ++assigned_count_;
  connect_when_complete();
  return true;
}

void Gang::connect_when_complete() {
  if (!is_complete() || broken_) return;
  for (std::uint32_t i = 0; i < world_size_; ++i) {
    const Rank rank{i};
    later(kConnectTime, rank, [this, rank] { hands_.say(rank, Deed::connected, {}); });
    later(script_.restore_time, rank, [this, rank] {
      hands_.say(rank, Deed::restored, {first_step_, 0, false});
    });
  }
}

void Gang::go(Rank rank) {
  if (rank.value >= ranks_.size()) ranks_.resize(rank.value + 1);
  going_count_ += std::exchange(ranks_[rank.value].going, true) ? 0 : 1;
  if (going_count_ < world_size_ || training_) return;
  training_ = true;
  base_ = queue_.now();
  plan();
}

std::uint64_t Gang::step() const {
  if (!is_training()) return base_step_;
  return base_step_ + static_cast<std::uint64_t>((queue_.now() - base_) / pace());
}

void Gang::settle() {
  if (!is_training()) return;
  const auto present = step();
  base_ += pace() * static_cast<std::int64_t>(present - base_step_);
  base_step_ = present;
}

/// The next step at which something is to be said or done.
void Gang::plan() {
  if (!is_training() || over_) return;
  settle();
  const auto present = base_step_;
  auto next = present + 1;
  const bool asked = stop_asked_ || checkpoint_asked_;
  const bool told = each_step_ || asked || present < first_step_ + kFirstStepsTold;
  if (!told) {
    const auto every = script_.checkpoint_every;
    next = every > 0 ? (present / every + 1) * every : present + (std::uint64_t{1} << 32U);
    if (script_.steps > 0) next = std::min(next, std::max(script_.steps, present + 1));
    if (present <= best_before_) next = std::min(next, best_before_ + 1);
  }
  const auto due = base_ + pace() * static_cast<std::int64_t>(next - present);
  hands_.quiet(due);
  queue_.at(due, [this, next, plan = ++plans_] {
    if (plan == plans_ && is_training()) reach(next);
  });
}

void Gang::reach(std::uint64_t step) {
  base_step_ = step;
  base_ = queue_.now();
  const bool last = (script_.steps > 0 && step >= script_.steps) || stop_asked_;
  const bool write = last || std::exchange(checkpoint_asked_, false) ||
                     (script_.checkpoint_every > 0 && step % script_.checkpoint_every == 0);
  over_ = last;
  tell_all(write ? Deed::writes : Deed::stepped);
  if (write) {
    each_alive([&](Rank rank) {
      const Progress progress{step, step, false};
      const auto written = script_.write_time + rng_.between(0ns, script_.write_time / 4);
      later(written, rank, [this, rank, progress] { hands_.say(rank, Deed::written, progress); });
      if (!last) return;
      later(script_.write_time * 2, rank,
            [this, rank, progress] { hands_.say(rank, Deed::finished, progress); });
    });
  }
  plan();
}

void Gang::say(Rank rank, Deed deed) {
  const bool entered = hung_count_ > 0 && !is_hung(rank);
  const auto present = step();
  hands_.say(rank, deed, {present, present + (entered ? 1 : 0), entered});
}

void Gang::tell_all(Deed deed) {
  each_alive([&](Rank rank) { say(rank, deed); });
}

void Gang::tell(Rank rank) {
  if (is_training() && !over_ && !each_step_) say(rank, Deed::stepped);
}

void Gang::request_checkpoint() {
  if (!std::exchange(checkpoint_asked_, true)) plan();
}

void Gang::request_stop() {
  if (!std::exchange(stop_asked_, true)) plan();
}

void Gang::die(Rank rank) {
  if (!is_alive(rank)) return;
  const auto leave = [&] {
    ranks_[rank.value].alive = false;
    --alive_count_;
  };
  if (over_) return leave();  // done, one after the other
  if (is_training()) {
    settle();
    hands_.quiet(queue_.now());
    // What each has done last is known to its agent, as if it had told every step.
    if (!each_step_) tell_all(Deed::stepped);
  }
  leave();
  if (std::exchange(broken_, true) || assigned_count_ == 0) return;
  each_alive([&](Rank other) {
    later(rng_.between(kPeerNoticeMin, kPeerNoticeMax), other, [this, other] {
      hands_.say(other, Deed::peer_lost, {base_step_, base_step_, false});
    });
  });
}

void Gang::hang(Rank rank) {
  if (!is_training()) return;
  settle();
  hands_.quiet(queue_.now());
  hung_count_ += std::exchange(ranks_[rank.value].hung, true) ? 0 : 1;
  tell_all(Deed::stepped);
}

void Gang::slow(std::uint32_t percent) {
  settle();
  slowness_percent_ = percent;
  plan();
}

}  // namespace dlaunch::simulation
