// Collectives of some ranks through NCCL.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "trainer/comm/nccl/device_communicator.h"
#include "trainer/comm/nccl/io/device_session.h"

namespace dlaunch::comm {

/// What rank 0 tells the others through the mesh: one byte, 1 if it has an id, and the id.
constexpr std::size_t kIdMessageBytes = 1 + NCCL_UNIQUE_ID_BYTES;

class NcclCommunicator final : public DeviceCommunicator {
 public:
  /// All ranks of `part`, the mesh of the session or a part of it, call it. `name`: as in
  /// sentences.
  [[nodiscard]] static CommResult<std::unique_ptr<DeviceCommunicator>> connect(
      std::shared_ptr<DeviceSession> session, Communicator& part, const std::string& name);

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t world_size() const override { return world_size_; }
  [[nodiscard]] CommResult<Ticket> start_all_reduce(DeviceSpan values) override;
  [[nodiscard]] CommResult<Ticket> start_reduce_scatter(DeviceSpan all, DeviceSpan own) override;
  [[nodiscard]] CommResult<Ticket> start_all_gather(DeviceSpan own, DeviceSpan all) override;
  [[nodiscard]] CommResult<void> wait(Ticket ticket) override { return session_->wait(ticket); }

 private:
  NcclCommunicator(std::shared_ptr<DeviceSession> session, const Communicator& part,
                   const std::string& name)
      : session_(std::move(session)),
        rank_(part.rank()),
        world_size_(part.world_size()),
        name_(name) {}

  [[nodiscard]] CommResult<void> initialise(const ncclUniqueId& id);
  [[nodiscard]] CommResult<Ticket> start(const char* what, std::size_t bytes,
                                         const std::function<ncclResult_t()>& enqueue);
  /// Until NCCL is ready for the next call.
  [[nodiscard]] CommResult<void> settle(const std::string& doing, Instant deadline);

  const std::shared_ptr<DeviceSession> session_;  ///< ends the communicator
  const Rank rank_;
  const std::uint32_t world_size_;
  const std::string name_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace dlaunch::comm
