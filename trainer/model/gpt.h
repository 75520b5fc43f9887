// GPT-2 on LibTorch, behind a header without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Threads within an operation, for the whole process; results differ between numbers of threads.
void set_threads(std::uint32_t threads);

/// "torch 2.11.0, AVX2": what the bits of results rest on beside the program.
[[nodiscard]] std::string numeric_library();

class Gpt final : public Model {
 public:
  /// The model reads its parameters from `values` (flat, as `layout` says), which must outlive it
  /// and may change between the passes of a micro-batch.
  /// `checkpointing`: a block keeps only its input and is run again in the backward pass, which
  /// gives the same bits.
  Gpt(const ModelSettings& settings, const ParameterLayout& layout, std::span<float> values,
      bool checkpointing = false, Precision precision = Precision::fp32);
  ~Gpt() override;

  [[nodiscard]] std::size_t units() const override;
  [[nodiscard]] Result<void> forward_unit(std::size_t unit, std::size_t slot,
                                          const Batch& batch) override;
  [[nodiscard]] Result<double> loss(std::size_t slot) override;
  [[nodiscard]] Result<void> evaluate_unit(std::size_t unit, std::size_t slot,
                                           const Batch& batch) override;
  /// As in PaLM's appendix B: six for each weight of a matrix product, and attention without
  /// leaving out what the mask hides.
  [[nodiscard]] double flops_per_token() const override;
  [[nodiscard]] Result<void> backward_unit(std::size_t unit, std::size_t slot,
                                           std::span<float> gradients, const Ready& ready) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlaunch::trainer
