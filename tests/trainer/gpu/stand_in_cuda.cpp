// The calls of CUDA that are used, on ordinary memory.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/trainer/gpu/stand_in.h"

namespace dlaunch::comm {

StandIn& stand_in() {
  static StandIn the_one;
  return the_one;
}

void StandIn::move_on() {
  for (cudaStream_t stream : streams) {
    while (!stream->operations.empty() && stream->operations.front()()) {
      stream->operations.pop_front();
    }
  }
}

}  // namespace dlaunch::comm

using dlaunch::comm::stand_in;

namespace {

cudaError_t append(cudaStream_t stream, std::function<bool()> operation) {
  const std::lock_guard lock(stand_in().mutex);
  stream->operations.push_back(std::move(operation));
  return cudaSuccess;
}

/// A host function on its way; the thread is joined when it is done.
struct Call {
  Call(cudaHostFn_t function, void* data)
      : thread([this, function, data] {
          function(data);
          done = true;
        }) {}
  ~Call() { thread.join(); }
  std::atomic<bool> done{false};
  std::thread thread;
};

}  // namespace

extern "C" {

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidDevice ? "invalid device ordinal" : "an error of the stand-in";
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }

cudaError_t cudaMalloc(void** memory, std::size_t size) {
  *memory = std::malloc(size);
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** memory, std::size_t size) { return cudaMalloc(memory, size); }

cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int /*flags*/) {
  const std::lock_guard lock(stand_in().mutex);
  *stream = std::make_unique<CUstream_st>().release();
  stand_in().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(stand_in().mutex);
  stand_in().streams.erase(stream);
  std::unique_ptr<CUstream_st>{stream}.reset();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int /*flags*/) {
  *event = std::make_unique<CUevent_st>().release();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::unique_ptr<CUevent_st>{event}.reset();
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto reached = std::make_shared<bool>(false);
  event->reached = reached;
  return append(stream, [reached] { return *reached = true; });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(stand_in().mutex);
  stand_in().move_on();
  return *event->reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t count, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return append(stream, [=] {
    std::memcpy(to, from, count);
    return true;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  // Begun only when all before it is done.
  return append(stream, [function, data, call = std::shared_ptr<Call>()]() mutable {
    if (!call) call = std::make_shared<Call>(function, data);
    return call->done.load();
  });
}

}  // extern "C"
