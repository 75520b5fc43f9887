// How the ranks share a step: who computes which micro-batches, who keeps which values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "base/time.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/exact_sum.h"

namespace dlaunch::trainer {

/// What an engine works with; all outlive it.
struct EngineHands {
  Model& model;
  const ParameterLayout& layout;     ///< of the whole model
  comm::Communicator& communicator;  ///< of all ranks
  /// Of the ranks that share this rank's copy of the state, and of those that keep the same shard
  /// of all copies; null: all ranks share one copy.
  comm::Communicator* copy = nullptr;
  comm::Communicator* copies = nullptr;
  comm::AbortFlag& abort;
  std::uint32_t logical_batches = 1;
  /// Fills the slot with a micro-batch of the present step; valid until the slot is filled again.
  std::function<Batch(std::size_t slot, std::uint32_t micro_batch)> batch;
  /// Likewise with a micro-batch of what is kept for validation.
  std::function<Batch(std::size_t slot, std::uint32_t micro_batch)> validation_batch;
  std::function<void(std::string_view phase)> entered;
};

/// The generation was ended while this rank computed.
struct Aborted {};
/// Why a step has no gradient: communication, this rank's own trouble, or the abort.
using EngineTrouble = std::variant<comm::CommFailure, Error, Aborted>;
template <class T>
using EngineResult = tl::expected<T, EngineTrouble>;

/// Bytes of parameters that are in memory beside this rank's part of the state.
struct ParameterBytes {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;
};

/// Used by one thread. Destroying it waits for what has been started: where that may take long,
/// abort first.
class GradientEngine {
 public:
  virtual ~GradientEngine() = default;
  /// Computes this rank's micro-batches of a step; every rank calls it. Adds each micro-batch's
  /// loss to `losses`. Afterwards `gradients` holds the sum over all ranks.
  [[nodiscard]] virtual EngineResult<void> compute(ExactSum& losses) = 0;
  /// Only the losses of so many micro-batches of validation, and this rank's of them; every rank
  /// calls it. Nothing that a step depends on is changed.
  [[nodiscard]] virtual EngineResult<void> validate(std::uint32_t micro_batches,
                                                    ExactSum& losses) = 0;
  /// Of the values that this rank keeps, laid out as its state is.
  [[nodiscard]] virtual std::span<float> gradients() = 0;
  /// False: another rank keeps the same values, and what is added up over all counts them there.
  [[nodiscard]] virtual bool counts() const = 0;
  /// Time of the last step in which this rank waited for others.
  [[nodiscard]] virtual nanoseconds waited() const = 0;
  [[nodiscard]] virtual ParameterBytes gathered() const = 0;
};

}  // namespace dlaunch::trainer
