// The scripted workers of one generation: they train together, and stop together when one is gone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/ids.h"
#include "base/time.h"
#include "simulation/event_queue.h"

namespace dlaunch::simulation {

/// What a scripted worker does next; the world turns it into lines of the worker socket.
enum class Deed { ready, connected, restored, stepped, written, peer_lost, finished };

struct TrainingScript {
  std::uint64_t steps = 100;
  nanoseconds step_time = 100ms;
  std::uint64_t checkpoint_every = 20;
  nanoseconds start_time = 300ms;  ///< fork to `ready`
  nanoseconds restore_time = 50ms;
  nanoseconds write_time = 30ms;
};

/// All workers of one generation, wherever they run. Owned by the world, which tells it of every
/// order and every death.
class Gang {
 public:
  using Say = std::function<void(Rank, Deed, std::uint64_t step)>;

  Gang(EventQueue& queue, TrainingScript script, Say say)
      : queue_(queue), script_(script), say_(std::move(say)) {}

  void start(Rank rank);
  void assign(Rank rank, std::uint32_t world_size, std::optional<std::uint64_t> restore_step);
  void go(Rank rank);
  void request_checkpoint() { checkpoint_asked_ = true; }
  void request_stop() { stop_asked_ = true; }
  /// Killed, exited or frozen: the others lose it during the present step.
  void die(Rank rank);
  /// Does not step any more, yet its process lives.
  void hang(Rank rank) { hung_.insert(rank); }
  [[nodiscard]] std::uint64_t step() const { return step_; }

 private:
  void connect_when_complete();
  void train();
  void finish_step();
  void later(nanoseconds delay, Rank rank, std::function<void()> action);

  EventQueue& queue_;
  TrainingScript script_;
  Say say_;
  std::set<Rank> alive_;
  std::set<Rank> assigned_;
  std::set<Rank> going_;
  std::set<Rank> hung_;
  std::uint32_t world_size_ = 0;
  std::uint64_t step_ = 0;
  bool broken_ = false;
  bool training_ = false;
  bool checkpoint_asked_ = false;
  bool stop_asked_ = false;
};

}  // namespace dlaunch::simulation
