// Frames waiting for the controller: the urgent first, logs last and bounded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "protocol/agent_wire.pb.h"

namespace dlaunch::supervisor::host {

/// Owned by one connection; emptied when it closes.
class Outbox {
 public:
  /// Logs above kLogQueueBytesMax are dropped and counted in the next that is not; a heartbeat
  /// replaces the one that still waits. False: more than kSendQueueBytesMax wait, the controller
  /// does not read; the connection is to be closed, and the next one begins with an empty outbox.
  [[nodiscard]] bool push(protocol::AgentFrame frame);
  [[nodiscard]] bool empty() const;
  /// The next frames, framed for the wire, numbered on, about 64 KiB at most.
  [[nodiscard]] std::string take(std::uint64_t acknowledged);
  void clear();
  /// Of the newest frame taken on this connection.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  void drop_beats();

  struct Waiting {
    protocol::AgentFrame frame;
    std::size_t bytes = 0;
  };
  std::array<std::deque<Waiting>, 5> waiting_;
  std::size_t other_bytes_ = 0;  ///< of all but logs
  std::size_t log_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace dlaunch::supervisor::host
