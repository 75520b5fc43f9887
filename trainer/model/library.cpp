#include "trainer/model/library.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/version.h>

#include <algorithm>

#include "base/time.h"
#include "trainer/io/clock.h"
#include "trainer/model/staging.h"

namespace dlaunch::trainer {

// One more whenever an operation of our own (gelu_values.h, mean_loss.h) gives other bits.
constexpr int kOwnOperations = 2;

void set_threads(std::uint32_t threads) { at::set_num_threads(static_cast<int>(threads)); }

std::string numeric_library() {
  return std::string("torch ") + TORCH_VERSION + ", " + at::get_cpu_capability() + ", operations " +
         std::to_string(kOwnOperations);
}

double measure_gemm_flops_per_second() {
  constexpr int kTries = 5;
  const auto device = place().device;
  const std::int64_t side = device.is_cpu() ? 512 : 4096;
  const c10::InferenceMode no_gradients;
  const auto left = at::ones({side, side}, device);
  const auto right = at::ones({side, side}, device);
  auto best = nanoseconds::max();
  for (int i = 0; i < kTries; ++i) {
    const auto begun = trainer_now();
    const auto product = at::mm(left, right);
    if (!device.is_cpu()) {
      c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    }
    best = std::min(best, trainer_now() - begun);
  }
  return 2.0 * static_cast<double>(side * side * side) / to_seconds(best);
}

}  // namespace dlaunch::trainer
