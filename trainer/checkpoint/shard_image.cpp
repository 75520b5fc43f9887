#include "trainer/checkpoint/shard_image.h"

#include <algorithm>
#include <cstring>

#include "trainer/checkpoint/json_cursor.h"
#include "trainer/checkpoint/layout.h"
#include "trainer/checkpoint/safetensors.h"

namespace dlaunch::checkpoint {
namespace {

tl::unexpected<Error> refused(const std::string& name, const std::string& what) {
  return failure(std::errc::invalid_argument, "saving the tensor \"" + name + "\": " + what);
}

Result<void> check(const TensorView& view) {
  const TensorSpec& spec = view.spec;
  if (spec.name.empty() || spec.name.size() > kTensorNameBytesMax || spec.name.starts_with("__") ||
      !is_utf8(spec.name)) {
    return refused(spec.name, "it has no proper name");
  }
  if (spec.shape.size() > kDimensionsMax || !bytes_of(spec.dtype, spec.shape)) {
    return refused(spec.name, "its shape cannot be");
  }
  const std::uint64_t rows = rows_of(spec.shape);
  if (view.first_row > rows || view.rows > rows - view.first_row) {
    return refused(spec.name, "it has fewer rows than the view");
  }
  if (view.data.size() != view.rows * bytes_of_row(spec.dtype, spec.shape)) {
    return refused(spec.name, "its bytes do not fit its rows");
  }
  return {};
}

}  // namespace

Result<ShardPlan> plan_shard(std::span<const TensorView> tensors, std::uint32_t world_size,
                             Rank rank) {
  if (tensors.size() > kTensorsMax) {
    return failure(std::errc::invalid_argument, "saving more tensors than a checkpoint may have");
  }
  std::vector<const TensorView*> by_name;
  for (const TensorView& view : tensors) {
    if (auto right = check(view); !right) return tl::unexpected(right.error());
    by_name.push_back(&view);
  }
  std::ranges::sort(by_name, {}, [](const TensorView* view) { return view->spec.name; });

  ShardPlan plan;
  std::vector<TensorSpec> parts;
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    const TensorView& view = *by_name[i];
    const TensorSpec& spec = view.spec;
    if (i > 0 && by_name[i - 1]->spec.name == spec.name) {
      return refused(spec.name, "it appears twice");
    }
    const RowRange rows = rows_of_rank(rows_of(spec.shape), world_size, rank);
    if (rows.count == 0) continue;
    if (rows.first < view.first_row || rows.first + rows.count > view.first_row + view.rows) {
      return refused(spec.name, "this rank does not hold the rows that it is to write");
    }
    TensorSpec part = spec;
    if (!part.shape.empty()) part.shape.front() = rows.count;
    parts.push_back(std::move(part));
    const std::uint64_t row_bytes = bytes_of_row(spec.dtype, spec.shape);
    plan.pieces.push_back(
        view.data.subspan((rows.first - view.first_row) * row_bytes, rows.count * row_bytes));
  }
  plan.head = format_head(place(parts));
  plan.bytes = plan.head.size();
  for (const auto piece : plan.pieces) plan.bytes += piece.size();
  return plan;
}

void copy_shard(const ShardPlan& plan, std::span<std::byte> into) {
  std::memcpy(into.data(), plan.head.data(), plan.head.size());
  std::size_t at = plan.head.size();
  for (const auto piece : plan.pieces) {
    if (!piece.empty()) std::memcpy(into.subspan(at).data(), piece.data(), piece.size());
    at += piece.size();
  }
}

}  // namespace dlaunch::checkpoint
