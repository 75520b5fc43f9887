// A link over the network: one connection, or several that carry one stream in turns.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/io/link.h"

namespace dlaunch::comm {

/// What one connection carries before the next has its turn: several fit into what a socket keeps,
/// so that all connections are busy at the same time.
constexpr std::uint32_t kStripeBytes = 128U << 10U;

/// Where networks limit each connection (clouds do, and long ways with small windows), several
/// carry more than one. Bytes have one order all the same: turns are fixed, so nothing is said
/// about them on the wire.
class TcpLink final : public Link {
 public:
  /// Both sides give equally many connections in the same order, and the same `stripe_bytes`.
  TcpLink(FileDescriptor first, std::string name, std::vector<FileDescriptor> others = {},
          std::size_t stripe_bytes = kStripeBytes);

  [[nodiscard]] Moved send(std::span<const iovec> parts) override;
  [[nodiscard]] Moved receive(std::span<const iovec> parts) override;
  [[nodiscard]] Moved receive_adding(std::span<float> into) override;
  [[nodiscard]] Moved peek(std::span<std::byte> bytes) override;
  [[nodiscard]] std::size_t turn_bytes() const override { return std::size_t{256} * 1024; }

  void add_polls(Wants wants, std::vector<pollfd>& polls) const override;
  [[nodiscard]] bool can_move(Wants /*wants*/) const override { return false; }
  [[nodiscard]] bool begin_wait(Wants /*wants*/) override { return true; }
  void end_wait(short /*happened*/) override {}
  [[nodiscard]] bool has_several_connections() const override { return !others_.empty(); }
  [[nodiscard]] bool is_shared_memory() const override { return false; }

 private:
  /// On their way from the socket into a sum; stays in the second-level cache. Allocated at first
  /// use.
  static constexpr std::size_t kBounceBytes = 256 * 1024;

  /// Where a direction of the stream is: which connection, and what it carries until the next.
  struct Turn {
    std::size_t connection = 0;
    std::size_t left = std::numeric_limits<std::size_t>::max();
  };
  [[nodiscard]] int fd_of(const Turn& turn) const {
    return turn.connection == 0 ? fd() : others_[turn.connection - 1].get();
  }
  void move_on(Turn& turn, std::size_t bytes) const;
  /// Of `parts` what belongs to the present turn.
  [[nodiscard]] std::span<const iovec> within(const Turn& turn, std::span<const iovec> parts);

  std::vector<FileDescriptor> others_;
  std::size_t stripe_bytes_;
  Turn out_, in_;
  std::vector<iovec> cut_;  ///< of `within`
  std::vector<std::byte> bounce_;
  std::size_t kept_ = 0;  ///< bytes at the front of it that are no whole float yet
};

}  // namespace dlaunch::comm
