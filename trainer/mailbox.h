// What the agent has asked for, between the thread that reads its socket and the one that trains.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/worker_message.h"
#include "trainer/comm/io/abort_flag.h"

namespace dlaunch::trainer {

/// Wishes that wait for the next common step.
struct Requests {
  bool checkpoint = false;
  bool stop = false;
  bool stop_checkpoint = false;  ///< with `stop`: write a checkpoint first
};

struct Assigned {
  Generation generation;
  protocol::worker::Assign assign;
};
struct GoAhead {};
struct StopAsked {
  bool checkpoint = false;
};
struct AbortAsked {};
struct TimedOut {};
using Order = std::variant<Assigned, GoAhead, StopAsked, AbortAsked, TimedOut>;

/// Shared by two threads: one delivers, one waits. Keeps the newest assignment only, so nothing
/// grows. What is about an older generation is dropped here.
class Mailbox {
 public:
  explicit Mailbox(Generation generation) : generation_(generation) {}

  /// From the agent. An abort, or an assignment to a later generation, ends the waits of the
  /// current one at once.
  void deliver(const protocol::AgentMessage& message);

  [[nodiscard]] Generation generation() const;
  /// Of the current generation; set once it is over.
  [[nodiscard]] std::shared_ptr<comm::AbortFlag> abort_flag() const;

  /// With nothing in hand: an assignment, an abort (to be answered), a stop, or the limit is over.
  [[nodiscard]] Order wait_parked(milliseconds limit);
  /// Assigned and restored: go, a stop, an abort, or the limit is over.
  [[nodiscard]] Order wait_go(milliseconds limit);

  [[nodiscard]] Requests requests() const;
  /// One wish for a checkpoint was met at a common step. All ranks meet it even if the wish has
  /// reached only one of them; the others' is then met before it comes.
  void met_checkpoint();

 private:
  template <class Ready>
  Order wait(milliseconds limit, Ready ready);
  void enter(Generation generation);
  void keep(Generation generation, const protocol::worker::Endpoints& part);
  [[nodiscard]] protocol::worker::Assign complete(Generation generation,
                                                  protocol::worker::Assign assign);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Generation generation_;
  std::shared_ptr<comm::AbortFlag> abort_flag_ = std::make_shared<comm::AbortFlag>();
  std::optional<protocol::worker::Assign> assignment_;
  protocol::worker::Endpoints early_endpoints_;  ///< of the assignment that is on its way
  Generation early_generation_;
  bool go_ = false;
  bool abort_unanswered_ = false;
  std::optional<StopAsked> stop_;
  std::uint64_t checkpoints_asked_ = 0;
  std::uint64_t checkpoints_met_ = 0;
};

}  // namespace dlaunch::trainer
