// Which rank writes which rows into which file: a pure function of the tensors and the number of
// ranks, so that no rank ever asks another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

constexpr const char* kManifestName = "manifest.json";
constexpr const char* kMomentPrefix = "optimizer.exp_avg.";
constexpr const char* kSecondMomentPrefix = "optimizer.exp_avg_sq.";

struct RowRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// Rows rank `rank` of `world_size` writes; differs by at most one row between ranks, may be none.
[[nodiscard]] RowRange rows_of_rank(std::uint64_t rows, std::uint32_t world_size, Rank rank);

/// "shard-2-of-4.safetensors"; ranks count from 0.
[[nodiscard]] std::string shard_name(std::uint32_t world_size, Rank rank);
/// True for names `shard_name` can give, and for nothing else.
[[nodiscard]] bool is_shard_name(std::string_view name);

/// "step-800" and "step-800.g3.partial".
[[nodiscard]] std::string step_directory_name(Step step);
[[nodiscard]] std::string partial_directory_name(Step step, Generation generation);
/// The step of "step-800"; nullopt for anything else.
[[nodiscard]] std::optional<Step> step_of_directory(std::string_view name);

}  // namespace dlaunch::checkpoint
