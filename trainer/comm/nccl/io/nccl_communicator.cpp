#include "trainer/comm/nccl/io/nccl_communicator.h"

#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "trainer/comm/nccl/io/device_error.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

ncclDataType_t nccl_type(DeviceType type) {
  return type == DeviceType::fp32 ? ncclFloat32 : ncclBfloat16;
}

/// Rank 0 makes the id; the mesh, which has proved who is who, carries it to the others.
CommResult<ncclUniqueId> share_id(Communicator& part) {
  std::array<std::byte, kIdMessageBytes> message{};
  ncclUniqueId id{};
  CommResult<void> made;
  if (part.rank() == Rank{0}) {
    made = check_nccl(ncclGetUniqueId(&id), nullptr, "making an id for the communicator");
    message[0] = made ? std::byte{1} : std::byte{0};
    std::memcpy(message.data() + 1, id.internal, sizeof id.internal);
  }
  const auto told = part.broadcast(Rank{0}, std::span(message));
  if (!made) return tl::unexpected(made.error());
  if (!told) return tl::unexpected(told.error());
  if (message[0] != std::byte{1}) {
    return tl::unexpected(
        CommFailure{FailureKind::peer_lost,
                    {{}, "the first rank could not make an id for NCCL; its own log says why"},
                    std::nullopt});
  }
  std::memcpy(id.internal, message.data() + 1, sizeof id.internal);
  return id;
}

}  // namespace

CommResult<std::unique_ptr<DeviceCommunicator>> NcclCommunicator::connect(
    std::shared_ptr<DeviceSession> session, Communicator& part, const std::string& name) {
  if (auto alive = session->go_on(); !alive) return tl::unexpected(alive.error());
  const auto id = share_id(part);
  if (!id) return session->fail(id.error());
  // Not make_unique: the constructor is nobody else's.
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(session), part, name));
  if (auto stands = made->initialise(*id); !stands) return tl::unexpected(stands.error());
  return made;
}

CommResult<void> NcclCommunicator::initialise(const ncclUniqueId& id) {
  const std::string doing = "connecting " + std::to_string(world_size_) + " devices (" + name_ +
                            ", rank " + std::to_string(rank_.value) + " on device " +
                            std::to_string(session_->settings().device) + ")";
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name_.c_str();
  const ncclResult_t code = ncclCommInitRankConfig(&communicator_, static_cast<int>(world_size_),
                                                   id, static_cast<int>(rank_.value), &config);
  if (communicator_ != nullptr) session_->adopt(communicator_);
  if (auto begun = check_nccl(code, communicator_, doing); !begun) {
    return session_->fail(begun.error());
  }
  return settle(doing, trainer_now() + session_->settings().connect_limit);
}

CommResult<void> NcclCommunicator::settle(const std::string& doing, Instant deadline) {
  const auto is_ready = [&]() -> CommResult<bool> {
    ncclResult_t state = ncclSuccess;
    return check_nccl(ncclCommGetAsyncError(communicator_, &state), communicator_, doing)
        .and_then([&] { return check_nccl(state, communicator_, doing); })
        .map([&] { return state == ncclSuccess; });
  };
  return session_->wait_until(is_ready, doing, deadline);
}

CommResult<Ticket> NcclCommunicator::start(const char* what, std::size_t bytes,
                                           const std::function<ncclResult_t()>& enqueue) {
  if (auto alive = session_->go_on(); !alive) return tl::unexpected(alive.error());
  std::string doing = std::string(what) + " of " + std::to_string(bytes) + " bytes (" + name_ +
                      ", operation " + std::to_string(session_->next_operation()) + " of device " +
                      std::to_string(session_->settings().device) + ")";
  if (auto enqueued = check_nccl(enqueue(), communicator_, doing); !enqueued) {
    return session_->fail(enqueued.error());
  }
  // Until then the event would be in the stream before the operation is.
  const auto handed_over = settle(doing, trainer_now() + session_->settings().operation_limit);
  if (!handed_over) return tl::unexpected(handed_over.error());
  return session_->mark(std::move(doing));
}

CommResult<Ticket> NcclCommunicator::start_all_reduce(DeviceSpan values) {
  return start("all-reduce", values.bytes(), [&] {
    return ncclAllReduce(values.data, values.data, values.count, nccl_type(values.type), ncclSum,
                         communicator_, session_->stream());
  });
}

CommResult<Ticket> NcclCommunicator::start_reduce_scatter(DeviceSpan all, DeviceSpan own) {
  DL_CHECK(all.type == own.type && all.count == own.count * world_size_, "one part for each rank");
  return start("reduce-scatter", all.bytes(), [&] {
    return ncclReduceScatter(all.data, own.data, own.count, nccl_type(own.type), ncclSum,
                             communicator_, session_->stream());
  });
}

CommResult<Ticket> NcclCommunicator::start_all_gather(DeviceSpan own, DeviceSpan all) {
  DL_CHECK(all.type == own.type && all.count == own.count * world_size_, "one part for each rank");
  return start("all-gather", all.bytes(), [&] {
    return ncclAllGather(own.data, all.data, own.count, nccl_type(own.type), communicator_,
                         session_->stream());
  });
}

}  // namespace dlaunch::comm
