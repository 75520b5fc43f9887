#include "simulation/connection.h"

#include <algorithm>
#include <utility>

namespace dlaunch::simulation {
namespace {

constexpr nanoseconds kRetransmitMin = 200ms;
constexpr nanoseconds kRetransmitMax = 1600ms;
constexpr nanoseconds kNoticeMax = 200ms;  // what TCP needs to notice that a cut is over
constexpr nanoseconds kUserTimeout = 10s;  // TCP_USER_TIMEOUT of the agent's socket

}  // namespace

Connection::Connection(Setting setting, const Line& line, const std::uint32_t& controller_cuts,
                       EventQueue& queue, Rng& rng, std::function<void()> timed_out)
    : setting_(std::move(setting)),
      controller_cuts_(controller_cuts),
      queue_(queue),
      rng_(rng),
      timed_out_(std::move(timed_out)),
      up_{line.to_controller, {}, {}},
      down_{line.to_host, {}, {}} {}

void Connection::to_controller(Deliver deliver, Kind kind) { send(up_, std::move(deliver), kind); }

void Connection::to_host(Deliver deliver, Kind kind) { send(down_, std::move(deliver), kind); }

void Connection::send(Direction& direction, Deliver&& deliver, Kind kind) {
  if (broken_) return;
  if (passes(direction) && direction.waiting.empty()) {
    schedule(direction, std::move(deliver), kind);
  } else {
    wait(direction, std::move(deliver), kind);
  }
}

void Connection::wait(Direction& direction, Deliver&& deliver, Kind kind) {
  auto& waiting = direction.waiting;
  if (waiting.empty()) {
    queue_.after(kUserTimeout, [self = shared_from_this(), flushes = flushes_] {
      if (flushes == self->flushes_ && self->is_waiting() && !self->broken_) self->timed_out_();
    });
  }
  // Of two beats that wait one behind the other the older says nothing.
  if (kind == Kind::beat && !waiting.empty() && waiting.back().kind == Kind::beat) {
    waiting.back().deliver = std::move(deliver);
    return;
  }
  waiting.push_back({std::move(deliver), kind});
}

void Connection::schedule(Direction& direction, Deliver&& deliver, Kind kind) {
  const auto& way = direction.way;
  auto due = queue_.now() + way.delay + rng_.between(setting_.delay_min, setting_.delay_max);
  if (way.loss_percent > 0) {
    for (auto retry = kRetransmitMin; retry <= kRetransmitMax && rng_.chance(way.loss_percent);
         retry *= 2) {
      due += retry;
    }
  }
  due = std::max({due, direction.last, way.clogged_until});
  direction.last = due;
  queue_.at(due,
            [self = shared_from_this(), &direction, kind, deliver = std::move(deliver)]() mutable {
              if (self->broken_) return;
              if (!self->passes(direction)) return self->wait(direction, std::move(deliver), kind);
              deliver();
            });
}

void Connection::flush() {
  for (auto* direction : {&up_, &down_}) {
    if (direction->waiting.empty() || !passes(*direction)) continue;
    ++flushes_;
    direction->last = std::max(direction->last, queue_.now() + rng_.between(0ns, kNoticeMax));
    for (auto& entry : std::exchange(direction->waiting, {})) {
      schedule(*direction, std::move(entry.deliver), entry.kind);
    }
  }
}

void Connection::closed_by_host(Deliver reset) { to_controller(std::move(reset)); }

}  // namespace dlaunch::simulation
