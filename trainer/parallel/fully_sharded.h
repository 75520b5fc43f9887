// FSDP and HSDP: each rank keeps a share of the state; a unit's values are gathered while it runs,
// and its gradient is reduced to the shares as soon as it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/comm/lanes.h"
#include "trainer/comm/partition.h"
#include "trainer/comm/tree_sum.h"
#include "trainer/flat_array.h"
#include "trainer/io/reserved_array.h"
#include "trainer/parallel/engine.h"
#include "trainer/parallel/sharing.h"

namespace dlaunch::trainer {

/// Micro-batches run in rounds (trainer/comm/lanes.h); a rank with two lanes runs both through each
/// unit before the next one, so that no rank ever has more than a unit's gradient. Where there are
/// several copies (HSDP), each reduces among its own ranks, and then the shares among the copies.
/// Rounds are folded on the shares. All in the order of the canonical tree: the bits are those of
/// DDP.
class FullySharded final : public GradientEngine {
 public:
  /// `share`: this rank's part of the values, as `shard` (sharding.h) says, and only changed
  /// between steps. `values`: where the model reads, as `hands.layout` says.
  FullySharded(EngineHands hands, const Sharing& sharing, const ParameterLayout& shard,
               std::span<const float> share, const ReservedArray& values,
               std::span<const ReservedArray> gradients, bool prefetch);
  ~FullySharded() override;

  [[nodiscard]] EngineResult<void> compute(ExactSum& losses) override;
  [[nodiscard]] EngineResult<void> validate(std::uint32_t micro_batches, ExactSum& losses) override;
  [[nodiscard]] std::span<float> gradients() override { return gradients_.values(); }
  [[nodiscard]] bool counts() const override {
    return sharing_.copy_of(hands_.communicator.rank()) == 0;
  }
  [[nodiscard]] nanoseconds waited() const override { return waited_; }
  [[nodiscard]] ParameterBytes gathered() const override { return gathered_; }

 private:
  /// A unit on its way forward or backward, and whose values it reads.
  struct Visit {
    std::size_t unit = 0;
    bool backward = false;
    std::vector<std::size_t> reads;
  };
  struct Shared {
    comm::Partition partition;
    comm::TreeFold rounds;
    bool present = false;  ///< its values are gathered, or on their way
    std::optional<comm::Ticket> gathering, reducing, replicating;
  };

  [[nodiscard]] EngineResult<void> run_round(std::uint32_t round, ExactSum& losses);
  [[nodiscard]] EngineResult<void> run(const Visit& visit, ExactSum& losses);
  /// The values that `visit` reads are there, those of the next one are under way.
  [[nodiscard]] EngineResult<void> prepare(const Visit& visit,
                                           const std::vector<std::size_t>& next);
  /// Forward only, of this rank's micro-batches in `batches_`, which may be none.
  [[nodiscard]] EngineResult<void> evaluate_batches(ExactSum& losses);
  [[nodiscard]] EngineResult<void> gather(std::span<const std::size_t> units);
  [[nodiscard]] EngineResult<void> await_gathered(std::span<const std::size_t> units);
  void drop_all_but(std::span<const std::size_t> units);
  [[nodiscard]] EngineResult<void> start_reducing(std::size_t unit);
  /// This rank's share of the gradient that is being reduced, if any, goes on to the other copies.
  [[nodiscard]] EngineResult<void> finish_reducing();
  /// What all copies have added up, if any, is added to this rank's share of the step.
  [[nodiscard]] EngineResult<void> finish_replicating();
  void fold(std::size_t unit);
  [[nodiscard]] comm::Communicator& copy() const {
    return hands_.copy == nullptr ? hands_.communicator : *hands_.copy;
  }
  [[nodiscard]] EngineResult<void> wait(comm::Communicator& among, comm::Ticket ticket);
  [[nodiscard]] std::span<float> share_of_gradient(std::size_t unit);
  [[nodiscard]] std::span<float> part(const ReservedArray& array, std::size_t unit) const;
  void release(const ReservedArray& array, std::size_t unit) const;

  const EngineHands hands_;
  const Sharing sharing_;
  const ParameterLayout& shard_;
  const std::span<const float> share_;
  const ReservedArray& values_;
  const std::span<const ReservedArray> slots_;  ///< a unit's gradient per slot
  const bool prefetch_;
  const std::uint32_t rounds_;
  std::vector<Visit> visits_;
  std::vector<Shared> units_;
  std::optional<std::size_t> reducing_, replicating_;  ///< the unit, at most one at a time
  FlatArray gradients_;
  comm::TreeNode mine_;  ///< of the present round
  std::vector<Batch> batches_;
  ParameterBytes gathered_;
  nanoseconds waited_{0};
};

}  // namespace dlaunch::trainer
