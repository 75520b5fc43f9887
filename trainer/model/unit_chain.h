// A model as a chain of units on LibTorch: all but what the units compute.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"

namespace torch::autograd {
struct Node;
}

namespace dlaunch::trainer {

class Staging;

/// Derived classes say what each unit computes; gradients, slots, running units again, a device's
/// memory and errors are taken care of here. What LibTorch throws becomes an Error.
class UnitChain : public Model {
 public:
  /// The model reads its parameters from `values` (flat, as `layout` says), which must outlive it
  /// and may change between the passes of a micro-batch.
  UnitChain(const ParameterLayout& layout, std::span<float> values);
  ~UnitChain() override;

  [[nodiscard]] std::size_t units() const override { return layout_.units.size(); }
  [[nodiscard]] Result<void> forward_unit(std::size_t unit, std::size_t slot,
                                          const Batch& batch) override;
  [[nodiscard]] Result<double> loss(std::size_t slot) override;
  [[nodiscard]] Result<void> evaluate_unit(std::size_t unit, std::size_t slot,
                                           const Batch& batch) override;
  [[nodiscard]] Result<void> backward_unit(std::size_t unit, std::size_t slot,
                                           std::span<float> gradients, const Ready& ready) override;
  void values_changed(std::size_t unit) override;
  void values_gone(std::size_t unit) override;

 protected:
  /// What leaves the unit: the stream of the next one, and from the last one the mean loss over the
  /// tokens, a scalar. `stream` is what left the unit before, undefined for the first. Only the
  /// unit's own parameters may be used, and those of the unit that it borrows from.
  [[nodiscard]] virtual at::Tensor apply(std::size_t unit, const at::Tensor& stream,
                                         const Batch& batch) const = 0;
  /// True: the unit keeps only its input and is run again in the backward pass, with the same bits.
  [[nodiscard]] virtual bool runs_again(std::size_t unit) const;

  /// In the order of the layout; leaves of the graph.
  [[nodiscard]] const at::Tensor& parameter(std::size_t index) const { return leaves_.at(index); }
  /// Ids as a tensor [sequences, context], where the parameters are; without a copy on the CPU.
  [[nodiscard]] at::Tensor tokens(const Batch& batch, std::span<const std::int64_t> ids) const;

 private:
  /// One micro-batch on its way: what went into each unit and what came out of it.
  struct Pass {
    std::vector<at::Tensor> inputs, outputs;
    Batch batch;
  };
  struct Owner {
    std::size_t unit = 0;
    std::array<bool, kSlots> lent{};  ///< a unit that borrows it has written its gradient already
    bool complete = false;            ///< its gradient is, in the backward pass that is running
  };

  /// On a device: the values that the unit reads are there.
  void bring_values(std::size_t unit);
  void run_forward(std::size_t unit, std::size_t slot, const Batch& batch);
  void run_backward();
  void watch(std::size_t index);
  void take_gradient(std::size_t index);
  /// On a device: of the unit whose backward pass is over, all at once.
  void fetch_gradients();
  /// Its part of the flat array.
  [[nodiscard]] std::span<float> place_of_gradient(std::size_t index) const;
  /// Another unit has written there in this pass, and what comes now is added.
  [[nodiscard]] bool is_added(std::size_t index);
  /// It is in its place.
  void note_gradient(std::size_t index);

  ParameterLayout layout_;
  std::unique_ptr<Staging> staging_;  ///< null: the values are read where they are
  std::vector<at::Tensor> leaves_;
  std::vector<Owner> owners_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;
  std::array<Pass, kSlots> passes_;
  std::span<float> gradients_;  ///< of the backward pass that is running
  std::size_t running_ = 0;     ///< its unit
  std::size_t slot_ = 0;
  const Ready* ready_ = nullptr;
};

}  // namespace dlaunch::trainer
