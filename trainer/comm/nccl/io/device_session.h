// One generation's work on this rank's device: one stream, one end for all that waits.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/io/abort_flag.h"

namespace dlaunch::comm {

struct DeviceSettings {
  int device = 0;                        ///< as CUDA counts what this process may see
  milliseconds connect_limit = 60s;      ///< for each communicator
  milliseconds operation_limit = 30min;  ///< from its start on; the supervisor judges hangs sooner
  milliseconds abort_limit = 20s;        ///< for NCCL to let go of everything
};

/// Runs copies and collectives in the order of the calls, and ends every wait at the abort, when a
/// rank of the mesh is lost, or at its limit. After the first failure nothing runs any more: all
/// communicators have been ended, in one call, and each call repeats that failure at once.
/// The mesh is the way for words between the ranks; it must outlive the session, and nobody else
/// may use it while this thread waits here. One thread calls, always the same.
class DeviceSession {
 public:
  /// All ranks of the mesh call it: if one of them has no device, all fail and say which.
  [[nodiscard]] static CommResult<std::shared_ptr<DeviceSession>> open(
      Communicator& mesh, const DeviceSettings& settings, std::shared_ptr<AbortFlag> abort);
  /// Ends what is under way, without asking the others: first let all ranks be done (`barrier` of
  /// the mesh).
  ~DeviceSession();
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;

  [[nodiscard]] CommResult<void> wait(Ticket ticket);
  /// Empty while alive.
  [[nodiscard]] const std::optional<CommFailure>& failure() const { return failure_; }
  /// NCCL did not let go when all was ended: this process is of no use for another generation.
  [[nodiscard]] bool is_stuck() const { return stuck_; }

  // For communicators and copies.

  [[nodiscard]] const DeviceSettings& settings() const { return settings_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] std::uint64_t next_operation() const { return started_ + 1; }
  /// A failure, if there is one.
  [[nodiscard]] CommResult<void> go_on() const;
  /// What was handed to the stream since the last one is one operation; `doing` names it.
  [[nodiscard]] CommResult<Ticket> mark(std::string doing);
  /// Looks until `done` says true or fails, with every end that a wait has.
  [[nodiscard]] CommResult<void> wait_until(const std::function<CommResult<bool>()>& done,
                                            const std::string& doing, Instant deadline);
  /// Ended with all others from now on.
  void adopt(ncclComm_t communicator) { communicators_.push_back(communicator); }
  /// The first failure stays, and ends everything.
  [[nodiscard]] tl::unexpected<CommFailure> fail(CommFailure failure);

 private:
  struct Pending {
    std::uint64_t sequence = 0;
    cudaEvent_t event = nullptr;
    std::string doing;
    Instant deadline{};
  };

  DeviceSession(Communicator& mesh, const DeviceSettings& settings,
                std::shared_ptr<AbortFlag> abort)
      : mesh_(mesh), settings_(settings), abort_(std::move(abort)) {}

  [[nodiscard]] CommResult<void> take_device();
  [[nodiscard]] CommResult<void> agree(const CommResult<void>& mine);
  [[nodiscard]] CommResult<cudaEvent_t> free_event();
  [[nodiscard]] std::optional<CommFailure> communicator_error(const std::string& doing) const;
  [[nodiscard]] std::optional<CommFailure> lost_rank(Instant now);
  void end_communicators();

  Communicator& mesh_;
  const DeviceSettings settings_;
  const std::shared_ptr<AbortFlag> abort_;
  cudaStream_t stream_ = nullptr;
  std::vector<ncclComm_t> communicators_;
  std::deque<Pending> pending_;
  std::vector<cudaEvent_t> free_events_;
  std::uint64_t started_ = 0;
  std::optional<Instant> left_since_;  ///< when a rank was first seen to be gone
  std::optional<CommFailure> failure_;
  bool stuck_ = false;
};

}  // namespace dlaunch::comm
