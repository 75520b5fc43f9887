// The loop's way to the disk: one checkpoint at a time, written in the background and reported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "trainer/checkpoint/io/shard_writer.h"
#include "trainer/loop.h"

namespace dlaunch::trainer {

/// A save that takes longer has failed: as `[health] checkpoint_limit`'s default.
constexpr milliseconds kSaveLimit = 30min;

/// The tensors of a checkpoint: parameters and both moments, by their names.
[[nodiscard]] std::vector<checkpoint::TensorView> views_of(const ParameterLayout& layout,
                                                           const TrainingState& state);
[[nodiscard]] std::vector<checkpoint::TensorDestination> destinations_in(
    const ParameterLayout& layout, TrainingState& state);

/// Of one generation. Destroying it gives up a save in progress.
class CheckpointSaver final : public Saver {
 public:
  /// Called on the writer's thread for each shard that is on disk.
  using Written = std::function<void(const checkpoint::ShardReport&)>;

  /// `request`: everything but the step. `restored`: the step that was loaded, if any.
  CheckpointSaver(const ParameterLayout& layout, checkpoint::SaveRequest request,
                  std::optional<std::uint64_t> restored, Written written);

  [[nodiscard]] Result<void> start(const TrainingState& state) override;
  [[nodiscard]] Result<void> finish() override;
  [[nodiscard]] Result<void> trouble() const override;
  [[nodiscard]] std::optional<std::uint64_t> newest() const override { return newest_; }

 private:
  const ParameterLayout& layout_;
  checkpoint::SaveRequest request_;
  std::optional<std::uint64_t> newest_;
  Written written_;
  mutable std::mutex mutex_;
  std::optional<Error> trouble_;
  checkpoint::ShardWriter writer_;  ///< last: its thread uses the others
};

}  // namespace dlaunch::trainer
