// Runs a pure machine on the thread of an io_context: events in, commands out, one timer. The same
// for all daemons.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/io/clock.h"
#include "base/time.h"

namespace dlaunch {

/// `Machine` has `step(Instant, const Event&)` and `next_deadline()`; it is never re-entered: what
/// `perform` puts in waits for its turn. Lives as long as the io_context runs.
template <class Machine, class Event>
class Driver {
 public:
  /// A gap in our own life longer than this is told to the machine before anything else.
  static constexpr nanoseconds kStallGap = 250ms;

  struct Hands {
    /// One command of the machine.
    std::function<void(typename decltype(std::declval<Machine&>().step(
        Instant(), std::declval<const Event&>()))::value_type&&)>
        perform;
    /// After a turn in which the machine ran; may be empty.
    std::function<void()> rested;
    /// The event for a gap; may be empty.
    std::function<Event(nanoseconds gap)> stalled;
  };

  Driver(boost::asio::io_context& context, Machine& machine, Event deadline_due, Hands hands)
      : context_(context),
        machine_(machine),
        deadline_due_(std::move(deadline_due)),
        hands_(std::move(hands)),
        timer_(context),
        last_alive_(boot_time_now()) {}

  /// On the io_context's thread; the machine runs at once, unless it runs already.
  void put(Event event) {
    // Sources are bounded one by one and the queue is emptied at each turn; so many is a loop.
    DL_CHECK(events_.size() < kEventsMax, "a machine keeps up with its events");
    events_.push_back(std::move(event));
    turn();
  }
  /// From any thread.
  void post(Event event) {
    boost::asio::post(context_, [this, event = std::move(event)]() mutable {
      if (!stopped_) put(std::move(event));
    });
  }
  /// No event is taken any more.
  void stop() {
    stopped_ = true;
    events_.clear();
    timer_.cancel();
  }

 private:
  static constexpr std::size_t kEventsMax = 1'000'000;
  // Short enough that an idle daemon is not taken for a stalled one.
  static constexpr nanoseconds kLookEvery = 100ms;

  void turn() {
    if (running_ || stopped_) return;
    running_ = true;
    notice_stall();
    bool ran = false;
    while (!events_.empty() && !stopped_) {
      Event event = std::move(events_.front());
      events_.pop_front();
      for (auto& command : machine_.step(monotonic_now(), std::move(event))) {
        if (!stopped_) hands_.perform(std::move(command));
      }
      ran = true;
    }
    if (ran && !stopped_ && hands_.rested) hands_.rested();
    running_ = false;
    if (!stopped_) arm();
  }

  void notice_stall() {
    const auto now = boot_time_now();
    const auto gap = now - std::exchange(last_alive_, now);
    if (gap > kStallGap && hands_.stalled) events_.push_front(hands_.stalled(gap));
  }

  void arm() {
    const auto look = monotonic_now() + kLookEvery;
    const auto deadline = machine_.next_deadline();
    const auto due = deadline && *deadline < look ? *deadline : look;
    if (armed_ && *armed_ <= due) return;  // it rings before and arms anew
    armed_ = due;
    timer_.expires_at(due);
    timer_.async_wait([this](const boost::system::error_code& code) {
      if (code || stopped_) return;
      armed_.reset();
      const auto next = machine_.next_deadline();
      if (next && *next <= monotonic_now()) events_.push_back(deadline_due_);
      turn();
    });
  }

  boost::asio::io_context& context_;
  Machine& machine_;
  Event deadline_due_;
  Hands hands_;
  boost::asio::steady_timer timer_;
  std::optional<Instant> armed_;
  nanoseconds last_alive_;
  std::deque<Event> events_;
  bool running_ = false;
  bool stopped_ = false;
};

}  // namespace dlaunch
