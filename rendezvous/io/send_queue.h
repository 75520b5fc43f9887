// Frames waiting for one agent: the urgent first, bounded, numbered when they leave.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "rendezvous/io/fifo.h"

namespace dlaunch::rendezvous {

/// A frame without number and acknowledged, serialised once for all its receivers.
struct OutgoingFrame {
  /// What goes first. The welcome opens a connection; after it nothing overtakes an abort.
  enum class Urgency : std::uint8_t { welcome, abort, order, beat };
  Urgency urgency = Urgency::order;
  std::string body;
};
[[nodiscard]] std::shared_ptr<const OutgoingFrame> make_outgoing(protocol::ControllerFrame frame);

/// What goes to the wire next, in this order.
struct Outgoing {
  std::string bytes;  ///< whole small frames; the beginning of `large`, where there is one
  std::shared_ptr<const OutgoingFrame> large;  ///< its body is shared by all its receivers
  std::string end;                             ///< of `large`
  [[nodiscard]] bool empty() const { return bytes.empty(); }
};

/// Owned by one connection.
class SendQueue {
 public:
  /// False: the queue is at kSendQueueBytesMax, the peer reads too slowly. A beat behind a beat
  /// that still waits says nothing new and is left out.
  [[nodiscard]] bool push(std::shared_ptr<const OutgoingFrame> frame);
  [[nodiscard]] bool empty() const;
  [[nodiscard]] std::size_t waiting_bytes() const { return waiting_bytes_; }

  /// Into `out`, which is empty: the next frames in their order, at least one, then as many small
  /// ones as stay below `bytes_max`. They count as sent at `now` and acknowledge `acknowledged`.
  void take(Outgoing& out, Instant now, std::uint64_t acknowledged, std::size_t bytes_max);

  /// When the frame was sent that the peer acknowledges now; nullopt: none yet (0), or too long
  /// ago to be remembered. An error when it was never sent.
  [[nodiscard]] Result<std::optional<Instant>> on_acknowledged(std::uint64_t number);

 private:
  // 16 bytes each. A peer that acknowledges none of so many is far beyond lost_after.
  static constexpr std::size_t kSentKeptMax = 4096;

  struct Sent {
    std::uint64_t number = 0;
    Instant at;
  };
  std::array<Fifo<std::shared_ptr<const OutgoingFrame>>, 4> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::optional<Instant> acknowledged_sent_at_;
  Fifo<Sent> sent_;
};

}  // namespace dlaunch::rendezvous
