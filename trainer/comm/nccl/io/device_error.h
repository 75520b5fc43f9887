// What CUDA and NCCL answer, as failures with words.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "trainer/comm/failure.h"

namespace dlaunch::comm {

/// `doing`: "copying 4096 bytes to device 0"; nothing if all is well.
[[nodiscard]] CommResult<void> check_cuda(cudaError_t code, const std::string& doing);
/// Under way is well. `communicator` may be null: NCCL's own sentence is asked of it.
[[nodiscard]] CommResult<void> check_nccl(ncclResult_t code, ncclComm_t communicator,
                                          const std::string& doing);
/// Of this process, with nobody else to blame.
[[nodiscard]] CommFailure local_failure(std::string sentence);

}  // namespace dlaunch::comm
