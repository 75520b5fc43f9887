// What the training loop knows of a model: a chain of units, the loss of a micro-batch and its
// gradient.
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

/// Micro-batches that may be on their way at the same time, each in a slot of its own.
constexpr std::size_t kSlots = 2;

/// Used by one thread. Units run forward in order and backward in the opposite order; the values of
/// a unit (ParameterLayout) need to be in place only while it runs. Errors:
/// `errc::not_enough_memory`, or what the tensor library said.
class Model {
 public:
  /// Told the index (ParameterLayout) of each parameter whose gradient is complete.
  using Ready = std::function<void(std::size_t parameter)>;

  virtual ~Model() = default;
  [[nodiscard]] virtual std::size_t units() const = 0;
  /// Keeps what the unit's backward pass needs. `batch` must stay until that of the first unit.
  [[nodiscard]] virtual Result<void> forward_unit(std::size_t unit, std::size_t slot,
                                                  const Batch& batch) = 0;
  /// The mean loss over the tokens, after the last unit's forward pass.
  [[nodiscard]] virtual Result<double> loss(std::size_t slot) = 0;
  /// Floating-point operations of forward and backward pass for one token; what runs again counts
  /// once.
  [[nodiscard]] virtual double flops_per_token() const = 0;
  /// Writes the gradient of the unit's parameters into `gradients` (flat, as the layout says; gaps
  /// are left alone); a unit that borrows another's writes there first, and that one adds.
  /// `ready` is called once for each parameter of the model, on this thread.
  [[nodiscard]] virtual Result<void> backward_unit(std::size_t unit, std::size_t slot,
                                                   std::span<float> gradients,
                                                   const Ready& ready) = 0;
  /// The unit's values are in place, others than before; said before the first pass that reads
  /// them. A model that keeps copies makes new ones.
  virtual void values_changed(std::size_t unit) { static_cast<void>(unit); }
  /// They are about to go, until values_changed says that they are back.
  virtual void values_gone(std::size_t unit) { static_cast<void>(unit); }
  /// As forward_unit where no backward pass follows: a model may then keep nothing for it.
  [[nodiscard]] virtual Result<void> evaluate_unit(std::size_t unit, std::size_t slot,
                                                   const Batch& batch) {
    return forward_unit(unit, slot, batch);
  }

  /// The whole chain, in the first slot.
  [[nodiscard]] Result<double> forward(const Batch& batch) {
    for (std::size_t unit = 0; unit < units(); ++unit) {
      if (auto done = forward_unit(unit, 0, batch); !done) return tl::unexpected(done.error());
    }
    return loss(0);
  }
  [[nodiscard]] Result<double> evaluate(const Batch& batch) {
    for (std::size_t unit = 0; unit < units(); ++unit) {
      if (auto done = evaluate_unit(unit, 0, batch); !done) return tl::unexpected(done.error());
    }
    return loss(0);
  }
  [[nodiscard]] Result<void> backward(std::span<float> gradients, const Ready& ready) {
    for (std::size_t unit = units(); unit-- > 0;) {
      if (auto done = backward_unit(unit, 0, gradients, ready); !done) return done;
    }
    return {};
  }
};

}  // namespace dlaunch::trainer
