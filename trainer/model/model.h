// What the training loop knows of a model: the loss of a micro-batch and its gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"

namespace dlaunch::trainer {

/// Tokens of one micro-batch; row s holds `context` inputs, and targets one place further on.
struct Batch {
  std::uint32_t sequences = 0;
  std::uint32_t context = 0;
  std::span<const std::int64_t> inputs;
  std::span<const std::int64_t> targets;
};

/// Used by one thread. Errors: `errc::not_enough_memory`, or what the tensor library said.
class Model {
 public:
  /// Told the index (ParameterLayout) of each parameter whose gradient is complete.
  using Ready = std::function<void(std::size_t parameter)>;

  virtual ~Model() = default;
  /// The mean loss over the tokens; keeps what `backward` needs. `batch` must stay until then.
  [[nodiscard]] virtual Result<double> forward(const Batch& batch) = 0;
  /// Writes the gradient of the last `forward` over `gradients` (flat, as the layout says; gaps
  /// are left alone). `ready` is called once for each parameter, on this thread.
  [[nodiscard]] virtual Result<void> backward(std::span<float> gradients, const Ready& ready) = 0;
};

}  // namespace dlaunch::trainer
