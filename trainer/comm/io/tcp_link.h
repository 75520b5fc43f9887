// A link over the network.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "trainer/comm/io/link.h"

namespace dlaunch::comm {

class TcpLink final : public Link {
 public:
  using Link::Link;

  [[nodiscard]] Moved send(std::span<const iovec> parts) override;
  [[nodiscard]] Moved receive(std::span<const iovec> parts) override;
  [[nodiscard]] Moved receive_adding(std::span<float> into) override;
  [[nodiscard]] Moved peek(std::span<std::byte> bytes) override;
  [[nodiscard]] std::size_t turn_bytes() const override { return std::size_t{256} * 1024; }

  [[nodiscard]] short events(Wants wants) const override;
  [[nodiscard]] bool can_move(Wants /*wants*/) const override { return false; }
  [[nodiscard]] bool begin_wait(Wants /*wants*/) override { return true; }
  void end_wait(short /*happened*/) override {}
  [[nodiscard]] bool is_shared_memory() const override { return false; }

 private:
  /// On their way from the socket into a sum; stays in the second-level cache. Allocated at first
  /// use.
  static constexpr std::size_t kBounceBytes = 256 * 1024;

  std::vector<std::byte> bounce_;
  std::size_t kept_ = 0;  ///< bytes at the front of it that are no whole float yet
};

}  // namespace dlaunch::comm
