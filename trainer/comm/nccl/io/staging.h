// Copies between ordinary memory of the host and the device, through two pinned pieces.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "trainer/comm/nccl/device_communicator.h"
#include "trainer/comm/nccl/io/device_memory.h"
#include "trainer/comm/nccl/io/device_session.h"

namespace dlaunch::comm {

/// What is filled while the device copies the other; pinned memory is taken from everybody.
constexpr std::size_t kStagingPieceBytes = std::size_t{4} * 1024 * 1024;

/// In the order of the session's operations, so what was copied is what a collective then takes.
/// Host spans may be any memory, also such as comes and goes.
class Staging {
 public:
  [[nodiscard]] static CommResult<Staging> open(std::shared_ptr<DeviceSession> session);

  /// Returns when `from` may be changed; the device has all of it when the ticket is done. `to` has
  /// as many bytes.
  [[nodiscard]] CommResult<Ticket> to_device(std::span<const std::byte> from, DeviceSpan to);
  /// Returns when `to` holds everything, and so after all operations before.
  [[nodiscard]] CommResult<void> from_device(DeviceSpan from, std::span<std::byte> to);

 private:
  struct Piece {
    PinnedMemory memory;
    Ticket used;  ///< the newest copy from or to it; 0: none
  };
  Staging(std::shared_ptr<DeviceSession> session, Piece first, Piece second)
      : session_(std::move(session)), pieces_{std::move(first), std::move(second)} {}

  [[nodiscard]] CommResult<void> wait_for(const Piece& piece);
  [[nodiscard]] CommResult<Ticket> copy(void* to, const void* from, std::size_t bytes,
                                        cudaMemcpyKind kind);

  std::shared_ptr<DeviceSession> session_;
  std::array<Piece, 2> pieces_;
};

}  // namespace dlaunch::comm
