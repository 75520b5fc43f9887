#include "trainer/checkpoint/restore_plan.h"

#include <algorithm>
#include <set>

namespace dlaunch::checkpoint {
namespace {

tl::unexpected<Error> refused(const std::string& name, const std::string& what) {
  return failure(std::errc::invalid_argument, "restoring the tensor \"" + name + "\": " + what);
}

std::string describe(Dtype dtype, const Shape& shape) {
  std::string text(name_of(dtype));
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<void> check(const TensorDestination& wanted, const Manifest& manifest) {
  const TensorSpec& spec = wanted.spec;
  const auto found = manifest.tensors.find(spec.name);
  if (found == manifest.tensors.end()) return refused(spec.name, "the checkpoint does not have it");
  const ManifestTensor& saved = found->second;
  if (saved.dtype != spec.dtype || saved.shape != spec.shape) {
    return refused(spec.name, "the checkpoint holds " + describe(saved.dtype, saved.shape) +
                                  ", the model wants " + describe(spec.dtype, spec.shape));
  }
  const std::uint64_t rows = rows_of(spec.shape);
  if (wanted.first_row > rows || wanted.rows > rows - wanted.first_row ||
      wanted.data.size() != wanted.rows * bytes_of_row(spec.dtype, spec.shape)) {
    return refused(spec.name, "the destination does not fit the rows that are wanted");
  }
  return {};
}

/// Everything the manifest says is in each file.
Result<std::map<std::string, FilePlan>> list_files(const Manifest& manifest) {
  std::map<std::string, FilePlan> files;
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const ManifestShard& shard : tensor.shards) {
      TensorSpec part{name, tensor.dtype, tensor.shape};
      if (!part.shape.empty()) part.shape.front() = shard.rows;
      if (!files[shard.file].parts.emplace(name, std::move(part)).second) {
        return refused(name, "the manifest lists " + shard.file + " twice for it");
      }
    }
  }
  return files;
}

void add_reads(const TensorDestination& wanted, const ManifestTensor& saved,
               std::map<std::string, FilePlan>& files) {
  const std::uint64_t row_bytes = bytes_of_row(wanted.spec.dtype, wanted.spec.shape);
  for (const ManifestShard& shard : saved.shards) {
    const std::uint64_t first = std::max(shard.first_row, wanted.first_row);
    const std::uint64_t last =
        std::min(shard.first_row + shard.rows, wanted.first_row + wanted.rows);
    if (first >= last) continue;
    const auto into =
        wanted.data.subspan((first - wanted.first_row) * row_bytes, (last - first) * row_bytes);
    files[shard.file].reads[wanted.spec.name] = {(first - shard.first_row) * row_bytes, into};
  }
}

bool is_whole(const FilePlan& plan) {
  return std::ranges::all_of(plan.parts, [&](const auto& entry) {
    const auto& [name, part] = entry;
    const auto read = plan.reads.find(name);
    const std::uint64_t wanted = read == plan.reads.end() ? 0 : read->second.into.size();
    return bytes_of(part.dtype, part.shape) == wanted;
  });
}

}  // namespace

Result<std::map<std::string, FilePlan>> plan_restore(const Manifest& manifest,
                                                     std::span<const TensorDestination> wanted) {
  auto files = list_files(manifest);
  if (!files) return files;
  std::set<std::string> names;
  for (const TensorDestination& destination : wanted) {
    if (auto fits = check(destination, manifest); !fits) return tl::unexpected(fits.error());
    if (!names.insert(destination.spec.name).second) {
      return refused(destination.spec.name, "it is wanted twice");
    }
    add_reads(destination, manifest.tensors.at(destination.spec.name), *files);
  }
  std::erase_if(*files, [](const auto& entry) { return entry.second.reads.empty(); });
  for (auto& [name, plan] : *files) plan.whole = is_whole(plan);
  return files;
}

}  // namespace dlaunch::checkpoint
