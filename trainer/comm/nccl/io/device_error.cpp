#include "trainer/comm/nccl/io/device_error.h"

#include <optional>
#include <utility>

namespace dlaunch::comm {
namespace {

/// What to look at; empty where CUDA's own words say all.
std::string next_step(cudaError_t code) {
  switch (code) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
      return "; is the NVIDIA driver installed, does nvidia-smi show a device, and does "
             "CUDA_VISIBLE_DEVICES leave one?";
    case cudaErrorInvalidDevice:
      return "; this host has fewer devices than ranks, or CUDA_VISIBLE_DEVICES hides some";
    case cudaErrorMemoryAllocation:
      return "; smaller micro-batches or more ranks need less, and nvidia-smi shows who else "
             "uses the device";
    default:
      return {};
  }
}

std::string next_step(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError:
    case ncclSystemError:
      return "; NCCL_DEBUG=WARN in the worker's environment shows which call failed";
    case ncclRemoteError:
      return "; another rank ended or cannot be reached any more";
    case ncclInvalidUsage:
      return "; two ranks on one device are refused, and so are different versions of NCCL";
    default:
      return {};
  }
}

}  // namespace

CommFailure local_failure(std::string sentence) {
  return {FailureKind::local, {{}, std::move(sentence)}, std::nullopt};
}

CommResult<void> check_cuda(cudaError_t code, const std::string& doing) {
  if (code == cudaSuccess) return {};
  return tl::unexpected(
      local_failure(doing + ": CUDA says: " + cudaGetErrorString(code) + next_step(code)));
}

CommResult<void> check_nccl(ncclResult_t code, ncclComm_t communicator, const std::string& doing) {
  if (code == ncclSuccess || code == ncclInProgress) return {};
  std::string sentence = doing + ": NCCL says: " + ncclGetErrorString(code);
  const char* detail = ncclGetLastError(communicator);
  if (detail != nullptr && *detail != '\0') sentence += std::string(" (") + detail + ")";
  CommFailure failure = local_failure(sentence + next_step(code));
  if (code == ncclRemoteError) failure.kind = FailureKind::peer_lost;
  return tl::unexpected(std::move(failure));
}

}  // namespace dlaunch::comm
