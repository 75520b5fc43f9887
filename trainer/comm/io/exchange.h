// Moves one message to and one from each other rank at the same time; every wait can be ended.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "trainer/comm/failure.h"
#include "trainer/comm/frame.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/comm/io/socket.h"

namespace dlaunch::comm {

/// A connection to another rank; this rank's own has no socket.
struct Link {
  FileDescriptor socket;
  std::string name;  ///< "rank 3 at 10.0.0.3:4000"
};

/// One message whose bytes lie in several places, in this order.
template <class Byte>
class Pieces {
 public:
  Pieces() = default;
  /// One place is the common case.
  template <class Whole>
  requires std::constructible_from<std::span<Byte>, Whole&> Pieces(
      Whole&& whole) {  // NOLINT(google-explicit-constructor)
    add(std::span<Byte>(whole));
  }

  void add(std::span<Byte> part) {
    size_ += part.size();
    if (!part.empty()) parts_.push_back(part);
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] const std::vector<std::span<Byte>>& parts() const { return parts_; }

 private:
  std::vector<std::span<Byte>> parts_;
  std::size_t size_ = 0;
};

/// What one rank gives and gets; nothing at all if the option is empty.
struct Transfer {
  std::optional<Pieces<const std::byte>> send;
  std::optional<Pieces<std::byte>> receive;
};

/// Which part of which operation a set of transfers is.
struct Stage {
  Operation operation{};
  std::uint64_t sequence = 0;
  std::uint32_t phase = 0;
  std::uint64_t total = 0;
  Instant deadline{};
  /// No further exchange of this operation follows: a rank that has given its part may be gone.
  bool last = true;
};

/// Used by one thread; `close` and the abort flag end its waits from others.
class Exchange {
 public:
  /// `links[r]` leads to rank r.
  Exchange(Rank self, std::vector<Link> links, std::shared_ptr<AbortFlag> abort);

  /// `transfers[r]` is for rank r; that of this rank is ignored. Returns once all are done.
  [[nodiscard]] CommResult<void> run(const Stage& stage, std::span<const Transfer> transfers);
  /// Tells the others why, as far as the connections can still carry it, and closes them.
  void leave(const CommFailure& failure);
  /// Any thread: ends the current and each later `run`.
  void close() { closed_.set("the communicator was closed"); }

  [[nodiscard]] Rank self() const { return self_; }
  [[nodiscard]] std::uint32_t world_size() const {
    return static_cast<std::uint32_t>(links_.size());
  }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_.load(); }

 private:
  /// The next byte of a message's payload: which of its pieces, and where in it.
  struct Place {
    std::size_t piece = 0;
    std::size_t offset = 0;
  };
  struct Progress {
    FrameBytes out_frame{};
    FrameBytes in_frame{};
    std::size_t sent = 0;      ///< frame and payload
    std::size_t received = 0;  ///< frame and payload
    Place send_place, receive_place;
    std::size_t to_send = 0;
    std::size_t to_receive = 0;
    bool departed = false;  ///< closed after its part was done
    [[nodiscard]] bool sending() const { return sent < to_send; }
    [[nodiscard]] bool receiving() const { return received < to_receive; }
  };

  template <class Byte>
  static std::size_t fill(std::span<iovec> parts, const Pieces<Byte>& pieces, Place place);
  template <class Byte>
  static void move_on(Place& place, const Pieces<Byte>& pieces, std::size_t bytes);
  void prepare(const Stage& stage, std::span<const Transfer> transfers);
  [[nodiscard]] bool finished() const;
  [[nodiscard]] CommResult<void> advance_all(const Stage& stage,
                                             std::span<const Transfer> transfers);
  [[nodiscard]] CommResult<bool> advance_send(const Stage& stage, std::uint32_t rank,
                                              const Transfer& transfer);
  [[nodiscard]] CommResult<bool> advance_receive(const Stage& stage, std::uint32_t rank,
                                                 const Transfer& transfer);
  [[nodiscard]] CommResult<void> check_frame(const Stage& stage, std::uint32_t rank,
                                             const Transfer& transfer);
  /// After a failed send: the other side may have said why it left before it closed.
  [[nodiscard]] std::optional<Leaving> last_words(std::uint32_t rank);
  [[nodiscard]] CommResult<void> wait_for_sockets(const Stage& stage);
  /// `rank` has closed although nothing is wanted of it in this exchange.
  [[nodiscard]] CommResult<void> on_departure(const Stage& stage, std::uint32_t rank);
  [[nodiscard]] CommFailure lost(const Stage& stage, std::uint32_t rank, int error) const;
  [[nodiscard]] CommFailure left(const Stage& stage, std::uint32_t rank,
                                 const Leaving& leaving) const;
  [[nodiscard]] CommFailure late(const Stage& stage) const;

  Rank self_;
  std::vector<Link> links_;
  std::shared_ptr<AbortFlag> abort_;
  AbortFlag closed_;
  std::vector<Progress> progress_;
  std::vector<pollfd> polled_;
  std::vector<std::uint32_t> polled_ranks_;  ///< of polled_ from its third entry on
  std::atomic<std::uint64_t> bytes_sent_{0};
};

}  // namespace dlaunch::comm
