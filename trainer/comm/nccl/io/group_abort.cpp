#include "trainer/comm/nccl/io/group_abort.h"

#include <cuda_runtime_api.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "base/io/thread.h"

namespace dlaunch::comm {
namespace {

std::string abort_all(int device, const std::vector<ncclComm_t>& communicators) {
  std::string wrong;
  const auto look = [&wrong](ncclResult_t code, const char* doing) {
    if (code == ncclSuccess || code == ncclInProgress || !wrong.empty()) return;
    wrong = std::string(doing) + ": NCCL says: " + ncclGetErrorString(code);
  };
  static_cast<void>(cudaSetDevice(device));
  look(ncclGroupStart(), "beginning to end all communicators");
  for (ncclComm_t communicator : communicators) {
    look(ncclCommAbort(communicator), "ending a communicator");
  }
  look(ncclGroupEnd(), "ending all communicators");
  return wrong;
}

}  // namespace

std::string abort_together(int device, std::vector<ncclComm_t> communicators, milliseconds limit) {
  if (communicators.empty()) return {};
  auto promise = std::make_shared<std::promise<std::string>>();
  std::future<std::string> outcome = promise->get_future();
  std::thread thread =
      thread_without_signals([device, promise, communicators = std::move(communicators)] {
        promise->set_value(abort_all(device, communicators));
      });
  if (outcome.wait_for(limit) == std::future_status::ready) {
    thread.join();
    return outcome.get();
  }
  // Nobody can end a thread inside of NCCL; it lives until the process ends, as the caller is told.
  const std::thread* kept = std::make_unique<std::thread>(std::move(thread)).release();
  static_cast<void>(kept);
  return "NCCL has not let go of device " + std::to_string(device) + " within " +
         std::to_string(limit.count()) + " ms, so this process must be ended";
}

}  // namespace dlaunch::comm
