#include "trainer/parallel/placement.h"

#include <utility>

#include "trainer/parallel/data_parallel.h"
#include "trainer/parallel/fully_sharded.h"
#include "trainer/parallel/sharding.h"

namespace dlaunch::trainer {

Result<Placement> Placement::make(const TrainerSettings& settings, ParameterLayout whole,
                                  std::uint32_t world_size, Rank rank) {
  if (settings.strategy == Strategy::ddp) return Placement({world_size, 1}, whole, whole);
  const bool hybrid = settings.strategy == Strategy::hsdp;
  const auto sharing = make_sharing(world_size, hybrid ? settings.shard_size : world_size);
  if (!sharing) return tl::unexpected(sharing.error());
  Placement placement(*sharing, whole, shard_of(whole, *sharing, rank));
  placement.prefetch_ = settings.prefetch;
  auto values = ReservedArray::make(whole.count);
  if (!values) return tl::unexpected(values.error());
  placement.gathered_.emplace(std::move(*values));
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    auto gradients = ReservedArray::make(whole.count);
    if (!gradients) return tl::unexpected(gradients.error());
    placement.gradients_.push_back(std::move(*gradients));
  }
  return placement;
}

std::unique_ptr<GradientEngine> Placement::make_engine(EngineHands hands,
                                                       std::span<const float> state_values) {
  if (!gathered_) return std::make_unique<DataParallel>(std::move(hands));
  return std::make_unique<FullySharded>(std::move(hands), sharing_, kept_, state_values, *gathered_,
                                        gradients_, prefetch_);
}

}  // namespace dlaunch::trainer
