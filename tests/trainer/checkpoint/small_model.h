// A few tensors with known values, saved by any number of ranks.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/io/files.h"
#include "trainer/checkpoint/io/loader.h"
#include "trainer/checkpoint/io/shard_writer.h"
#include "trainer/checkpoint/layout.h"

namespace dlaunch::checkpoint {

/// Shapes that do not divide evenly, have fewer rows than ranks, or no rows at all.
class SmallModel {
 public:
  explicit SmallModel(float first = 1.0F) {
    const std::vector<std::pair<std::string, Shape>> shapes{
        {"wte.weight", {257, 16}}, {"h.0.ln_1.bias", {16}},
        {"two", {2, 3, 5}},        {"scale", {}},
        {"nothing", {0, 4}},       {"one", {1}}};
    for (const auto& [name, shape] : shapes) {
      add(name, shape, first);
      add(kMomentPrefix + name, shape, first + 0.25F);
      add(kSecondMomentPrefix + name, shape, first + 0.5F);
    }
  }

  [[nodiscard]] std::vector<TensorView> views() const {
    std::vector<TensorView> views;
    for (const auto& [name, tensor] : tensors_) {
      const TensorSpec spec{name, Dtype::f32, tensor.shape};
      views.push_back({spec, 0, rows_of(spec.shape), std::as_bytes(std::span(tensor.values))});
    }
    return views;
  }
  /// The rows that `rank` of `world_size` would hold, or all with a world of one.
  [[nodiscard]] std::vector<TensorDestination> destinations(std::uint32_t world_size, Rank rank) {
    std::vector<TensorDestination> all;
    for (auto& [name, tensor] : tensors_) {
      TensorSpec spec{name, Dtype::f32, tensor.shape};
      const RowRange rows = rows_of_rank(rows_of(spec.shape), world_size, rank);
      const std::uint64_t row_bytes = bytes_of_row(spec.dtype, spec.shape);
      const auto data = std::as_writable_bytes(std::span(tensor.values));
      all.push_back({std::move(spec), rows.first, rows.count,
                     data.subspan(rows.first * row_bytes, rows.count * row_bytes)});
    }
    return all;
  }
  [[nodiscard]] bool operator==(const SmallModel& other) const {
    return views_equal(tensors_, other.tensors_);
  }

 private:
  struct Tensor {
    Shape shape;
    std::vector<float> values;
  };
  static bool views_equal(const std::map<std::string, Tensor>& left,
                          const std::map<std::string, Tensor>& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](const auto& one, const auto& other) {
                        return one.first == other.first && one.second.values == other.second.values;
                      });
  }
  void add(const std::string& name, const Shape& shape, float first) {
    Tensor& tensor = tensors_[name];
    tensor.shape = shape;
    tensor.values.resize(*bytes_of(Dtype::f32, shape) / sizeof(float));
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      tensor.values[i] = first + static_cast<float>(i);
    }
  }

  std::map<std::string, Tensor> tensors_;
};

/// Saves and commits as the agent would: reports into the manifest, then one rename.
inline std::filesystem::path save_and_commit(const SmallModel& model,
                                             const std::filesystem::path& directory, Step step,
                                             std::uint32_t world_size) {
  std::vector<ManifestFile> files(world_size);
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    ShardWriter writer;
    const SaveRequest request{directory,  step,          Generation{3}, Rank{rank},
                              world_size, {{"seed", 1}}, {10, "d"}};
    const auto started = writer.start(request, model.views(), [&](Result<ShardReport> report) {
      ASSERT_TRUE(report) << report.error().text();
      EXPECT_EQ(report->step, step);
      files[rank] = {report->file, report->bytes, report->hash};
    });
    EXPECT_TRUE(started) << started.error().text();
    EXPECT_TRUE(writer.wait_idle(30s));
  }
  const auto partial = directory / partial_directory_name(step, Generation{3});
  auto manifest = read_manifest(partial);
  EXPECT_TRUE(manifest) << manifest.error().text();
  manifest->files = files;
  EXPECT_TRUE(replace_file(partial / kManifestName, format_manifest(*manifest)));
  const auto final_path = directory / step_directory_name(step);
  std::filesystem::rename(partial, final_path);
  return final_path;
}

}  // namespace dlaunch::checkpoint
