// The scripted workers of one generation: they train together, and stop together when one is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "base/time.h"
#include "simulation/event_queue.h"

namespace dlaunch::simulation {

/// What a scripted worker does next; the host turns it into lines of the worker socket.
enum class Deed { ready, connected, restored, stepped, writes, written, peer_lost, finished };

struct TrainingScript {
  std::uint64_t steps = 0;  ///< 0: until it is stopped
  nanoseconds step_time = 1s;
  std::uint64_t checkpoint_every = 300;
  nanoseconds start_time = 300ms;  ///< fork to `ready`
  nanoseconds restore_time = 50ms;
  nanoseconds write_time = 30ms;
};

/// How far a rank is: the sequence counts collectives, one each step.
struct Progress {
  std::uint64_t step = 0;
  std::uint64_t sequence = 0;
  bool entered = false;
};

/// All workers of one generation, wherever they run. Owned by the world, which tells it of every
/// order and every death. Between two moments at which something is said it costs nothing: the step
/// follows from the time.
class Gang {
 public:
  struct Hands {
    std::function<void(Rank, Deed, const Progress&)> say;
    /// Nothing will be said before that: the heartbeats until then are all alike.
    std::function<void(Instant until)> quiet;
  };
  /// `each_step`: every step is told, as real workers do; else only those that change something.
  /// `best`: the highest step that the controller knows of; the next one is told.
  Gang(EventQueue& queue, Rng& rng, TrainingScript script, bool each_step, std::uint64_t best,
       Hands hands)
      : queue_(queue),
        rng_(rng),
        script_(script),
        each_step_(each_step),
        best_before_(best),
        hands_(std::move(hands)) {}

  void start(Rank rank);
  /// False: the ranks are not told the same, or there are more than the world has places.
  [[nodiscard]] bool assign(Rank rank, std::uint32_t world_size, std::optional<std::uint64_t> step);
  void go(Rank rank);
  void request_checkpoint();
  void request_stop();
  /// Killed or exited: the others lose it during the present step.
  void die(Rank rank);
  /// Does not step any more, yet its process lives.
  void hang(Rank rank);
  /// Says how far this one is, as its next line would.
  void tell(Rank rank);
  /// A controller took it over: it is told anew until when nothing will be said.
  void taken_over() { plan(); }
  /// Each step takes `percent` of its usual time.
  void slow(std::uint32_t percent);

  [[nodiscard]] std::uint64_t step() const;
  [[nodiscard]] bool is_training() const { return training_ && !broken_ && hung_count_ == 0; }
  [[nodiscard]] std::size_t alive() const { return alive_count_; }
  [[nodiscard]] std::uint32_t world_size() const { return world_size_; }
  [[nodiscard]] bool is_complete() const { return assigned_count_ == world_size_; }

 private:
  /// Told one by one so that the controller sees that steps are made, and how long they take.
  static constexpr std::uint64_t kFirstStepsTold = 2;

  void connect_when_complete();
  /// From the present step on, with the present pace.
  void plan();
  /// Counts the steps up to now.
  void settle();
  void tell_all(Deed deed);
  void say(Rank rank, Deed deed);
  void reach(std::uint64_t step);
  template <class Call>
  void later(nanoseconds delay, Rank rank, Call action);
  /// In the order of ranks.
  template <class Call>
  void each_alive(Call call);
  [[nodiscard]] bool is_alive(Rank rank) const {
    return rank.value < ranks_.size() && ranks_[rank.value].alive;
  }
  [[nodiscard]] bool is_hung(Rank rank) const {
    return rank.value < ranks_.size() && ranks_[rank.value].hung;
  }
  [[nodiscard]] nanoseconds pace() const { return script_.step_time * slowness_percent_ / 100; }

  EventQueue& queue_;
  Rng& rng_;
  TrainingScript script_;
  bool each_step_;
  std::uint64_t best_before_;
  Hands hands_;
  struct Member {
    bool alive = false, assigned = false, going = false, hung = false;
  };
  std::vector<Member> ranks_;
  std::size_t alive_count_ = 0, assigned_count_ = 0, going_count_ = 0, hung_count_ = 0;
  std::uint32_t world_size_ = 0;
  std::uint64_t first_step_ = 0;
  std::uint64_t base_step_ = 0;  ///< completed at base_
  Instant base_;
  std::uint64_t plans_ = 0;
  std::uint32_t slowness_percent_ = 100;
  bool broken_ = false;
  bool training_ = false;
  bool checkpoint_asked_ = false;
  bool stop_asked_ = false;
  bool over_ = false;
};

}  // namespace dlaunch::simulation
