#include "trainer/comm/nccl/io/device_session.h"

#include <poll.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/check.h"
#include "trainer/comm/nccl/io/device_error.h"
#include "trainer/comm/nccl/io/group_abort.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

/// Between two looks at the device: short at first, for operations are.
constexpr nanoseconds kPauseMin = 20us;
constexpr nanoseconds kPauseMax = 1ms;
/// Between two looks at the connections of the mesh.
constexpr nanoseconds kMeshLook = 10ms;
/// A rank that is done with everything may go while the last values are still on their way here.
constexpr nanoseconds kDepartureGrace = 1s;

/// Ends at once when the flag is set.
void pause_until_abort(const AbortFlag& abort, nanoseconds pause) {
  pollfd flag{abort.fd(), POLLIN, 0};
  const timespec time{0, static_cast<long>(pause.count())};
  static_cast<void>(::ppoll(&flag, 1, &time, nullptr));
}

}  // namespace

CommResult<std::shared_ptr<DeviceSession>> DeviceSession::open(Communicator& mesh,
                                                               const DeviceSettings& settings,
                                                               std::shared_ptr<AbortFlag> abort) {
  // Not make_shared: the constructor is nobody else's.
  std::shared_ptr<DeviceSession> session(new DeviceSession(mesh, settings, std::move(abort)));
  return session->agree(session->take_device()).map([&] { return session; });
}

DeviceSession::~DeviceSession() {
  end_communicators();
  for (const Pending& pending : pending_) free_events_.push_back(pending.event);
  for (cudaEvent_t event : free_events_) static_cast<void>(cudaEventDestroy(event));
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

CommResult<void> DeviceSession::take_device() {
  const std::string name = "device " + std::to_string(settings_.device);
  return check_cuda(cudaSetDevice(settings_.device), "taking " + name).and_then([&] {
    return check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                      "opening a stream on " + name);
  });
}

/// Who has no device would be waited for inside of NCCL, where nobody says who is missing.
CommResult<void> DeviceSession::agree(const CommResult<void>& mine) {
  Scalars without;
  without.sums = {mine ? 0.0 : 1.0, mine ? 0.0 : static_cast<double>(mesh_.rank().value)};
  const auto all = mesh_.all_reduce_scalars(without);
  if (!mine) return fail(mine.error());
  if (!all) return fail(all.error());
  const double count = all->sums[0];
  if (count == 0) return {};
  CommFailure failure;
  failure.kind = FailureKind::peer_lost;
  if (count == 1) {
    failure.suspect = Rank{static_cast<std::uint32_t>(all->sums[1])};
    failure.error.doing = "rank " + std::to_string(failure.suspect->value) +
                          " cannot use its device; its own log says why";
  } else {
    failure.error.doing = std::to_string(static_cast<std::uint32_t>(count)) +
                          " ranks cannot use their devices; their own logs say why";
  }
  return fail(std::move(failure));
}

CommResult<void> DeviceSession::go_on() const {
  if (failure_) return tl::unexpected(*failure_);
  return {};
}

CommResult<cudaEvent_t> DeviceSession::free_event() {
  cudaEvent_t event = nullptr;
  if (!free_events_.empty()) {
    event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  return check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event")
      .map([&] { return event; });
}

CommResult<Ticket> DeviceSession::mark(std::string doing) {
  if (failure_) return tl::unexpected(*failure_);
  DL_CHECK(pending_.size() < kOperationsPendingMax, "operations are waited for");
  const auto event = free_event();
  if (!event) return fail(event.error());
  if (auto recorded = check_cuda(cudaEventRecord(*event, stream_), doing); !recorded) {
    free_events_.push_back(*event);
    return fail(recorded.error());
  }
  pending_.push_back(
      {++started_, *event, std::move(doing), trainer_now() + settings_.operation_limit});
  return Ticket{started_};
}

CommResult<void> DeviceSession::wait(Ticket ticket) {
  DL_CHECK(ticket.sequence >= 1 && ticket.sequence <= started_, "a ticket comes from a start");
  while (!pending_.empty() && pending_.front().sequence <= ticket.sequence) {
    const Pending& next = pending_.front();
    const auto is_done = [&next]() -> CommResult<bool> {
      const cudaError_t code = cudaEventQuery(next.event);
      if (code == cudaErrorNotReady) return false;
      return check_cuda(code, next.doing).map([] { return true; });
    };
    if (auto done = wait_until(is_done, next.doing, next.deadline); !done) return done;
    free_events_.push_back(next.event);
    pending_.pop_front();
  }
  return {};
}

CommResult<void> DeviceSession::wait_until(const std::function<CommResult<bool>()>& done,
                                           const std::string& doing, Instant deadline) {
  Instant mesh_look = trainer_now() + kMeshLook;
  for (nanoseconds pause = kPauseMin; !failure_; pause = std::min(2 * pause, kPauseMax)) {
    if (abort_->is_set()) {
      const std::string sentence = doing + " was ended: " + abort_->reason();
      return fail({FailureKind::aborted, {{}, sentence}, std::nullopt});
    }
    const auto finished = done();
    if (!finished) return fail(finished.error());
    if (*finished) return {};
    if (auto error = communicator_error(doing)) return fail(std::move(*error));
    const Instant now = trainer_now();
    if (now >= mesh_look) {
      if (auto lost = lost_rank(now)) return fail(std::move(*lost));
      mesh_look = now + kMeshLook;
    }
    if (now >= deadline) {
      const std::string sentence =
          doing + " was not done within its limit; NCCL does not say which rank did not come";
      return fail({FailureKind::timed_out, {{}, sentence}, std::nullopt});
    }
    pause_until_abort(*abort_, pause);
  }
  return tl::unexpected(*failure_);
}

std::optional<CommFailure> DeviceSession::communicator_error(const std::string& doing) const {
  for (ncclComm_t communicator : communicators_) {
    ncclResult_t state = ncclSuccess;
    if (auto asked = check_nccl(ncclCommGetAsyncError(communicator, &state), communicator, doing);
        !asked) {
      return asked.error();
    }
    if (auto well = check_nccl(state, communicator, doing); !well) return well.error();
  }
  return std::nullopt;
}

/// The next operation of the mesh meets the end of the connection and says whose it is, and why it
/// left if it has said so.
std::optional<CommFailure> DeviceSession::lost_rank(Instant now) {
  if (auto failure = mesh_.failure()) return failure;
  if (!mesh_.somebody_has_left()) {
    left_since_.reset();
    return std::nullopt;
  }
  if (!left_since_) left_since_ = now;
  if (now - *left_since_ < kDepartureGrace) return std::nullopt;
  const auto met = mesh_.barrier();
  if (met) return std::nullopt;
  return met.error();
}

tl::unexpected<CommFailure> DeviceSession::fail(CommFailure failure) {
  if (!failure_) {
    failure_ = std::move(failure);
    end_communicators();
  }
  return tl::unexpected(*failure_);
}

void DeviceSession::end_communicators() {
  const std::string wrong =
      abort_together(settings_.device, std::exchange(communicators_, {}), settings_.abort_limit);
  if (wrong.empty()) return;
  stuck_ = true;
  if (failure_) failure_->error.doing += "; " + wrong;
}

}  // namespace dlaunch::comm
