// Collectives on the memory of devices: what the trainer knows of NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/failure.h"

namespace dlaunch::comm {

enum class DeviceType { fp32, bf16 };
[[nodiscard]] constexpr std::size_t bytes_of(DeviceType type) {
  return type == DeviceType::fp32 ? 4 : 2;
}

/// Values in the memory of this rank's device; the memory is the caller's.
struct DeviceSpan {
  void* data = nullptr;
  std::size_t count = 0;
  DeviceType type = DeviceType::fp32;
  [[nodiscard]] std::size_t bytes() const { return count * bytes_of(type); }
  /// `count` values from the `begin`-th on.
  [[nodiscard]] DeviceSpan part(std::size_t begin, std::size_t size) const {
    return {static_cast<std::byte*>(data) + begin * bytes_of(type), size, type};
  }
};

/// Collectives among some ranks of a generation, each with a device of its own. Every rank calls
/// the same ones in the same order; one thread calls. They run in the order of the calls, together
/// with the copies of the same session; memory must stay until `wait`.
/// Sums are NCCL's, in its order: equal on all ranks, but not the same bits at every world size,
/// as those of `Communicator` are.
/// After any failure the session and all its communicators are dead for good.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;

  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual std::uint32_t world_size() const = 0;

  // Each may wait for the other ranks the first time, while NCCL connects them.

  /// Replaces the values on every rank by their sums over the ranks.
  [[nodiscard]] virtual CommResult<Ticket> start_all_reduce(DeviceSpan values) = 0;
  /// `all` is one part for each rank, all equally large; `own` gets the sums of this rank's part
  /// and may be that part itself.
  [[nodiscard]] virtual CommResult<Ticket> start_reduce_scatter(DeviceSpan all, DeviceSpan own) = 0;
  /// The other way: `all` gets `own` of every rank, in their order; `own` may be its part in it.
  [[nodiscard]] virtual CommResult<Ticket> start_all_gather(DeviceSpan own, DeviceSpan all) = 0;
  /// Returns when the operation, and all before it, are done.
  [[nodiscard]] virtual CommResult<void> wait(Ticket ticket) = 0;
};

}  // namespace dlaunch::comm
