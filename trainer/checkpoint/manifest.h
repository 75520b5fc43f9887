// manifest.json: what a checkpoint holds and where, read back with suspicion.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

constexpr std::uint32_t kManifestFormat = 1;
/// 100,000 tensors in a few shards each; larger is refused before it is parsed.
constexpr std::size_t kManifestBytesMax = 64 * 1024 * 1024;

struct ManifestShard {
  std::string file;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  friend bool operator==(const ManifestShard&, const ManifestShard&) = default;
};

struct ManifestTensor {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<ManifestShard> shards;  ///< by first_row, without gap or overlap
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

/// Added at the commit, from what the ranks reported.
struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string hash;  ///< XXH3-128, hex
  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

/// The training data, so that a resume on another text is refused.
struct ManifestData {
  std::uint64_t bytes = 0;
  std::string hash;  ///< XXH3-128, hex
  friend bool operator==(const ManifestData&, const ManifestData&) = default;
};

struct Manifest {
  Step step;
  std::uint32_t world_size = 1;                      ///< of the writers; readers may be any number
  nlohmann::json config = nlohmann::json::object();  ///< trainer settings, for the resume check
  ManifestData data;
  std::string numerics;  ///< what rank 0 computed with, in words; empty: not said
  std::map<std::string, ManifestTensor> tensors;
  std::vector<ManifestFile> files;  ///< empty until committed
};

/// Fills `tensors` from the layout.
[[nodiscard]] Manifest make_manifest(Step step, std::uint32_t world_size, nlohmann::json config,
                                     ManifestData data, std::span<const TensorSpec> tensors);
[[nodiscard]] std::string format_manifest(const Manifest& manifest);
/// The error says which key and why; unknown keys are kept out of it.
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);

}  // namespace dlaunch::checkpoint
