// Moves one message to and one from each rank of a group at the same time; every wait can be ended.
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
#include <utility>
#include <vector>

#include "base/time.h"
#include "trainer/comm/failure.h"
#include "trainer/comm/frame.h"
#include "trainer/comm/group.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/comm/io/link.h"

namespace dlaunch::comm {

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
  bool adds = false;      ///< what comes are floats: they are added to those of `receive`
  bool in_place = false;  ///< `send` and `receive` are the same: nothing changes before it was sent
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
  const Group* group = nullptr;  ///< must outlive the exchange; nullptr: all ranks
};

/// Used by one thread at a time; `close` and the abort flag end its waits from others.
class Exchange {
 public:
  /// `links[r]` leads to rank r, this rank's own to nowhere (nullptr). `name`: of the group of all.
  Exchange(Rank self, std::vector<std::unique_ptr<Link>> links, std::shared_ptr<AbortFlag> abort,
           std::string name = "main");

  /// `transfers[i]` is for member i of the group; that of this rank is ignored. Returns once all
  /// are done.
  [[nodiscard]] CommResult<void> run(const Stage& stage, std::span<const Transfer> transfers);
  /// Tells the others why, as far as the connections can still carry it, and closes them.
  void leave(const CommFailure& failure);
  /// Between two operations: some connection has ended from the other side.
  [[nodiscard]] bool somebody_has_left() const;
  /// Closes the connections without a word.
  void disconnect();
  /// Any thread: ends the current and each later `run`.
  void close() { closed_.set("the communicator was closed"); }
  /// The exchange is of no use afterwards.
  [[nodiscard]] std::vector<std::unique_ptr<Link>> take_links() { return std::move(links_); }

  [[nodiscard]] Rank self() const { return self_; }
  [[nodiscard]] const Group& everybody() const { return everybody_; }
  [[nodiscard]] const Group& group_of(const Stage& stage) const {
    return stage.group == nullptr ? everybody_ : *stage.group;
  }
  [[nodiscard]] const std::string& name_of(Rank rank) const { return names_[rank.value]; }
  [[nodiscard]] std::uint64_t bytes_sent() const { return bytes_sent_.load(); }

 private:
  /// The next byte of a message's payload: which of its pieces, and where in it.
  struct Place {
    std::size_t piece = 0;
    std::size_t offset = 0;
  };
  /// Of the transfers with one rank; all zero if there are none.
  struct Progress {
    FrameBytes out_frame{};
    FrameBytes in_frame{};
    std::size_t sent = 0;      ///< frame and payload
    std::size_t received = 0;  ///< frame and payload
    Place send_place, receive_place;
    std::size_t to_send = 0;
    std::size_t to_receive = 0;
    bool in_place = false;
    bool departed = false;  ///< closed after its part was done
    [[nodiscard]] bool sending() const { return sent < to_send; }
    [[nodiscard]] bool receiving() const { return received < to_receive; }
    [[nodiscard]] bool idle() const { return !sending() && !receiving(); }
    /// Payload that may be changed by what comes.
    [[nodiscard]] std::size_t may_change() const;
    [[nodiscard]] Wants wants() const;
  };

  struct PolledLink {
    std::uint32_t rank = 0;
    std::size_t first = 0, end = 0;  ///< its entries in polled_
    short happened = 0;              ///< on any of them
  };

  template <class Byte>
  static std::size_t fill(std::span<iovec> parts, const Pieces<Byte>& pieces, Place place,
                          std::size_t turn);
  template <class Byte>
  static void move_on(Place& place, const Pieces<Byte>& pieces, std::size_t bytes);
  void prepare(const Stage& stage, std::span<const Transfer> transfers);
  [[nodiscard]] bool finished(const Group& group) const;
  [[nodiscard]] CommResult<void> advance_all(const Stage& stage,
                                             std::span<const Transfer> transfers);
  [[nodiscard]] CommResult<bool> advance_send(const Stage& stage, std::uint32_t rank,
                                              const Transfer& transfer);
  [[nodiscard]] CommResult<bool> advance_receive(const Stage& stage, std::uint32_t rank,
                                                 const Transfer& transfer);
  [[nodiscard]] Moved receive_payload(std::uint32_t rank, const Transfer& transfer);
  [[nodiscard]] CommResult<void> check_frame(const Stage& stage, std::uint32_t rank,
                                             const Transfer& transfer);
  /// After a failed send: the other side may have said why it left before it closed.
  [[nodiscard]] std::optional<Leaving> last_words(std::uint32_t rank);
  /// The rank's link has ended, and more may come through another of its connections until then.
  /// False: no; or this exchange has ended itself.
  [[nodiscard]] bool await_more(std::uint32_t rank, Instant deadline) const;
  [[nodiscard]] CommResult<void> wait(const Stage& stage);
  /// Shared memory is often only microseconds away.
  [[nodiscard]] bool comes_soon(const Group& group) const;
  [[nodiscard]] CommResult<void> wait_for_sockets(const Stage& stage);
  /// polled_ and polled_links_. False: something can be moved already.
  [[nodiscard]] bool list_sockets();
  void note_what_happened(bool anything);
  /// `rank` has closed although nothing is wanted of it in this exchange.
  [[nodiscard]] CommResult<void> on_departure(const Stage& stage, std::uint32_t rank);

  // exchange_failures.cpp
  [[nodiscard]] CommResult<void> ended(const Stage& stage) const;
  [[nodiscard]] CommFailure lost(const Stage& stage, std::uint32_t rank, int error) const;
  [[nodiscard]] CommFailure left(const Stage& stage, std::uint32_t rank,
                                 const Leaving& leaving) const;
  [[nodiscard]] CommFailure mismatch(const Stage& stage, std::uint32_t rank, const Frame& expected,
                                     const std::optional<Frame>& frame) const;
  [[nodiscard]] CommFailure late(const Stage& stage) const;
  [[nodiscard]] std::string sentence_of(const Stage& stage) const;

  Rank self_;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::string> names_;
  Group everybody_;
  bool spins_ = false;  ///< some link leads through shared memory
  std::shared_ptr<AbortFlag> abort_;
  AbortFlag closed_;
  std::vector<Progress> progress_;  ///< by rank of the mesh
  std::vector<pollfd> polled_;
  std::vector<PolledLink> polled_links_;
  std::atomic<std::uint64_t> bytes_sent_{0};
};

}  // namespace dlaunch::comm
