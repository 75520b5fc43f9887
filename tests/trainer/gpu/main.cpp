// dlaunch-gpu-checks: the GPU parts on device 0, one line a check. Exit code 0: all hold; 1: some
// do not; 77: there is no device.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <string>

#include "tests/trainer/gpu/checks.h"
#include "trainer/io/clock.h"

namespace {

constexpr int kExitSkipped = 77;

}  // namespace

int main() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  int version = 0;
  static_cast<void>(ncclGetVersion(&version));
  if (code != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: NOT ONE GPU CHECK WAS RUN. There is no device here (%s); NCCL %d is.\n",
                code == cudaSuccess ? "CUDA counts none" : cudaGetErrorString(code), version);
    return kExitSkipped;
  }
  cudaDeviceProp device{};
  static_cast<void>(cudaGetDeviceProperties(&device, 0));
  std::printf("%s, %d devices, NCCL %d\n", device.name, devices, version);
  int failed = 0;
  for (const auto& check : dlaunch::comm::all_checks()) {
    std::printf("%s: ", check.name.c_str());
    std::fflush(stdout);  // a check that hangs is named
    const auto begun = dlaunch::trainer_now();
    const std::string problem = check.run();
    const auto took =
        std::chrono::duration_cast<dlaunch::milliseconds>(dlaunch::trainer_now() - begun);
    if (problem.empty()) {
      std::printf("ok (%lld ms)\n", static_cast<long long>(took.count()));
    } else {
      std::printf("FAILED (%lld ms): %s\n", static_cast<long long>(took.count()), problem.c_str());
      ++failed;
    }
  }
  std::printf("%d GPU checks failed\n", failed);
  return failed == 0 ? 0 : 1;
}
