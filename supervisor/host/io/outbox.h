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
  /// replaces the one that still waits.
  void push(protocol::AgentFrame frame);
  [[nodiscard]] bool empty() const;
  /// The next frames, framed for the wire, numbered on, about 64 KiB at most.
  [[nodiscard]] std::string take(std::uint64_t acknowledged);
  void clear();
  /// Of the newest frame taken on this connection.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  std::array<std::deque<protocol::AgentFrame>, 5> waiting_;
  std::size_t log_bytes_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace dlaunch::supervisor::host
