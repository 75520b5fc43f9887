// A stand-in for a device: streams whose operations run when somebody asks whether they are done.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

/// As CUDA declares it.
struct CUstream_st {
  /// Each says whether it is done; the next one begins only then.
  std::deque<std::function<bool()>> operations;
};

struct CUevent_st {
  std::shared_ptr<bool> reached = std::make_shared<bool>(true);
};

namespace dlaunch::comm {

/// All that stands in, for all threads of the test, each of which is a rank.
struct StandIn {
  std::mutex mutex;
  std::set<cudaStream_t> streams;
  /// With the mutex.
  void move_on();
};
[[nodiscard]] StandIn& stand_in();

}  // namespace dlaunch::comm
