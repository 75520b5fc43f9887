// A session on device 0 whose mesh has only this rank.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/trainer/gpu/checks.h"
#include "trainer/comm/io/mesh.h"
#include "trainer/comm/nccl/io/nccl_communicator.h"
#include "trainer/comm/nccl/io/staging.h"

namespace dlaunch::comm {

/// Closed from its last member to its first.
struct OneRank {
  std::shared_ptr<AbortFlag> abort = std::make_shared<AbortFlag>();
  std::unique_ptr<Communicator> mesh;
  std::shared_ptr<DeviceSession> session;
  std::unique_ptr<DeviceCommunicator> group;
};

[[nodiscard]] CommResult<OneRank> open_one_rank(const DeviceSettings& settings = {});
/// Settings of rank `rank` among those listeners.
[[nodiscard]] MeshSettings mesh_settings(std::uint32_t rank,
                                         std::span<const MeshListener> listeners);

/// The first problem of several things that each must succeed.
template <class T>
[[nodiscard]] Problem problem_of(const CommResult<T>& outcome) {
  return outcome ? Problem() : outcome.error().error.text();
}

}  // namespace dlaunch::comm
