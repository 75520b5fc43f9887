// A simulated host's network: one ordered connection at a time, with delay, cuts and closing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/rng.h"
#include "base/time.h"
#include "simulation/event_queue.h"

namespace dlaunch::simulation {

/// Bytes on a connection arrive in order and once, or never; while a direction is cut they wait, as
/// TCP would have it, and arrive after healing unless the connection was closed meanwhile.
class Link {
 public:
  Link(EventQueue& queue, Rng& rng) : queue_(queue), rng_(rng) {}

  struct Direction {
    bool cut = false;
    Instant last{};
    std::deque<std::function<void()>> waiting;
  };

  /// A new connection; what was under way on the older one is gone.
  std::uint64_t open();
  void close() { open_ = false; }
  [[nodiscard]] bool is_open() const { return open_; }
  [[nodiscard]] std::uint64_t connection() const { return connection_; }
  [[nodiscard]] bool passes_both_ways() const { return !to_controller_.cut && !to_host_.cut; }

  void to_controller(std::function<void()> deliver) { send(to_controller_, std::move(deliver)); }
  void to_host(std::function<void()> deliver) { send(to_host_, std::move(deliver)); }

  void cut(bool to_controller, bool to_host);
  void heal();

 private:
  void send(Direction& direction, std::function<void()> deliver);
  void schedule(Direction& direction, std::function<void()> deliver);

  EventQueue& queue_;
  Rng& rng_;
  bool open_ = false;
  std::uint64_t connection_ = 0;
  Direction to_controller_;
  Direction to_host_;
};

}  // namespace dlaunch::simulation
