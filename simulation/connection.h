// A simulated connection between an agent and a controller: ordered, delayed, cut, closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "simulation/action.h"
#include "simulation/event_queue.h"

namespace dlaunch::simulation {

class Station;

/// What is wrong on one direction of a host's way to the login host.
struct Way {
  std::uint32_t cuts = 0;          ///< nothing passes while there is one
  nanoseconds delay{};             ///< over the usual one
  std::uint32_t loss_percent = 0;  ///< of segments; TCP sends them again, what follows waits
  Instant clogged_until{};         ///< what is sent before arrives then, all at once

  [[nodiscard]] bool disturbed(Instant now) const {
    return cuts > 0 || delay > 0ns || loss_percent > 0 || clogged_until > now;
  }
};
/// A host's network, and whether the login host that it talks to is cut off from everybody.
struct Line {
  Way to_controller, to_host;

  [[nodiscard]] bool passes() const { return to_controller.cuts == 0 && to_host.cuts == 0; }
  [[nodiscard]] bool disturbed(Instant now) const {
    return to_controller.disturbed(now) || to_host.disturbed(now);
  }
};

/// Where bytes go that do not go directly.
struct Through {
  std::optional<HostId> relay{};  ///< whose agent passes them on
  bool over_ssh = false;          ///< `plant` does, at the end of an SSH connection
};

/// Bytes arrive in order and once, or never; while a direction is cut they wait, as TCP has it, and
/// arrive after healing. Whoever is at the end decides whether it still listens.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  static constexpr std::size_t kDeliverBytes = 64;
  using Deliver = Action<kDeliverBytes>;
  enum class Kind { frame, beat };

  struct Setting {
    std::uint64_t number = 0;
    std::uint32_t host = 0;
    nanoseconds delay_min = 50us, delay_max = 2ms;
    Through through{};
    /// Of what is passed through another host: whether it can be passed on now.
    std::function<bool()> relay_passes{};
  };
  /// `controller_cuts`: of the login host. `timed_out`: at the agent, once nothing was acknowledged
  /// for 10 s.
  Connection(Setting setting, const Line& line, const std::uint32_t& controller_cuts,
             EventQueue& queue, Rng& rng, std::function<void()> timed_out);

  void to_controller(Deliver deliver, Kind kind = Kind::frame);
  void to_host(Deliver deliver, Kind kind = Kind::frame);
  /// The way was healed: what waits sets off.
  void flush();
  /// What passed the bytes on is gone: none of them arrives any more.
  void break_off() { broken_ = true; }
  /// The agent's end is closed: the controller's is reset as soon as something passes again.
  void closed_by_host(Deliver reset);

  /// Whom the agent reached with it.
  Station* belongs_to = nullptr;

  [[nodiscard]] std::uint64_t number() const { return setting_.number; }
  [[nodiscard]] HostId host() const { return HostId{setting_.host}; }
  [[nodiscard]] const std::optional<HostId>& relay() const { return setting_.through.relay; }
  [[nodiscard]] bool over_ssh() const { return setting_.through.over_ssh; }
  [[nodiscard]] bool is_broken() const { return broken_; }
  /// Some bytes have not arrived yet.
  [[nodiscard]] bool is_waiting() const { return !up_.waiting.empty() || !down_.waiting.empty(); }

 private:
  struct Waiting {
    Deliver deliver;
    Kind kind;
  };
  struct Direction {
    const Way& way;
    Instant last{};
    std::vector<Waiting> waiting;
  };
  [[nodiscard]] bool passes(const Direction& direction) const {
    return direction.way.cuts == 0 && controller_cuts_ == 0 &&
           (!setting_.relay_passes || setting_.relay_passes());
  }
  void send(Direction& direction, Deliver&& deliver, Kind kind);
  void schedule(Direction& direction, Deliver&& deliver, Kind kind);
  void wait(Direction& direction, Deliver&& deliver, Kind kind);

  Setting setting_;
  const std::uint32_t& controller_cuts_;
  EventQueue& queue_;
  Rng& rng_;
  std::function<void()> timed_out_;
  std::uint64_t flushes_ = 0;
  bool broken_ = false;
  Direction up_, down_;
};

}  // namespace dlaunch::simulation
