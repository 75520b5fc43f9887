// Sums a step's gradients over all micro-batches of all ranks in the order of one binary tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/tree_sum.h"
#include "trainer/flat_array.h"
#include "trainer/model/parameters.h"

namespace dlaunch::trainer {

/// A bucket's all-reduce starts as soon as its last gradient is there, so that most of the
/// transfer runs beside the rest of the backward pass. 1 MiB: large against the cost of a message,
/// small against the model.
constexpr std::size_t kBucketValues = 1u << 18;

/// Data-parallel: this rank folds its own micro-batches, one all-reduce per bucket and step does
/// the rest. Used by one thread; `communicator` must outlive it.
class GradientReducer {
 public:
  GradientReducer(const ParameterLayout& layout, comm::Communicator& communicator,
                  std::size_t bucket_values = kBucketValues);
  /// Waits for what has been started: it is reduced in this object's memory. Where that may take
  /// long, abort first.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  /// `micro_batches`: how many this rank will add; a power of two.
  void begin_step(std::uint32_t micro_batches);
  /// Where each micro-batch's gradient is to be written; after `finish`, the sum over all.
  [[nodiscard]] std::span<float> gradients() { return gradients_.values(); }
  /// The parameter's gradient of the current micro-batch is in place.
  void on_ready(std::size_t parameter);
  /// Waits for the transfers. The first failure of a step, also of an earlier `on_ready`.
  [[nodiscard]] comm::CommResult<void> finish();

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    std::size_t first = 0;
    std::size_t count = 0;
    std::uint32_t parameters = 0;
    std::uint32_t missing = 0;  ///< gradients of the current micro-batch
    comm::TreeFold fold;
    std::optional<comm::Ticket> ticket;
  };

  void fold(Bucket& bucket);
  [[nodiscard]] std::span<float> values_of(const Bucket& bucket);
  void start_in_order();

  comm::Communicator& communicator_;
  FlatArray gradients_;
  std::vector<Bucket> buckets_;         ///< from the end of the flat array to its start
  std::vector<std::size_t> bucket_of_;  ///< by parameter
  std::uint32_t micro_batches_ = 0;
  std::size_t next_to_start_ = 0;
  std::optional<comm::CommFailure> failure_;
};

}  // namespace dlaunch::trainer
