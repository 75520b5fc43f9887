#include "trainer/model/staging.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"

namespace dlaunch::trainer {
namespace {

Place& stored_place() {
  static Place one;
  return one;
}
std::atomic<bool> used{false};

c10::StorageImpl& storage_of(const at::Tensor& flat) {
  return *flat.storage().unsafeGetStorageImpl();
}

/// Tensors keep their storage, so that those which a backward pass has saved stay good.
void free_memory_of(const at::Tensor& flat) {
  auto& storage = storage_of(flat);
  storage.set_data_ptr_noswap(at::DataPtr(nullptr, flat.device()));
  storage.set_nbytes(0);
}
void take_memory_for(const at::Tensor& flat) {
  auto& storage = storage_of(flat);
  const auto bytes = static_cast<std::size_t>(flat.numel()) * sizeof(float);
  if (storage.nbytes() == bytes) return;
  storage.set_data_ptr_noswap(storage.allocator()->allocate(bytes));
  storage.set_nbytes(bytes);
}

at::Tensor view_of(std::span<const float> values) {
  return at::from_blob(const_cast<float*>(values.data()),
                       {static_cast<std::int64_t>(values.size())}, at::kFloat);
}

}  // namespace

Place place() { return stored_place(); }
void set_place(const Place& place) { stored_place() = place; }
bool was_used() { return used; }
void note_use() { used = true; }

Staging::Staging(const ParameterLayout& layout, std::span<const float> values, const Place& place)
    : layout_(layout), values_(values), place_(place) {
  DL_CHECK(place_.piece_values > 0, "copies have a size");
  const auto empty = [](std::size_t count, const at::TensorOptions& options) {
    return at::empty({static_cast<std::int64_t>(count)}, options.dtype(at::kFloat));
  };
  for (const auto& unit : layout_.units) {
    units_.push_back({empty(unit.count, at::TensorOptions(place_.device)), State::changed});
    const auto& flat = units_.back().flat;
    for (std::size_t i = 0; i < unit.parameters; ++i) {
      const auto& parameter = layout_.parameters[unit.first_parameter + i];
      const std::vector<std::int64_t> sizes(parameter.shape.begin(), parameter.shape.end());
      tensors_.push_back(flat.narrow(0, static_cast<std::int64_t>(parameter.first - unit.first),
                                     static_cast<std::int64_t>(parameter.count))
                             .view(sizes));
    }
    free_memory_of(flat);
  }
  for (auto& half : halves_) {
    half.memory = empty(std::min(place_.piece_values, layout_.count),
                        at::TensorOptions().pinned_memory(!on_cpu()));
    if (!on_cpu()) half.used.emplace(place_.device.type());
  }
}

at::Tensor Staging::tensor(std::size_t index) const { return tensors_.at(index).variable_data(); }

at::Tensor Staging::there(const at::Tensor& here) const {
  return on_cpu() ? here.clone() : here.to(place_.device, /*non_blocking=*/true);
}

void Staging::values_gone(std::size_t unit) {
  auto& its = units_.at(unit);
  its.state = State::gone;
  free_memory_of(its.flat);
}

void Staging::bring(std::size_t unit) {
  auto& its = units_.at(unit);
  DL_CHECK(its.state != State::gone, "the values of a unit are there while it runs");
  if (its.state == State::there) return;
  const at::NoGradGuard no_grad;
  take_memory_for(its.flat);
  const auto& place = layout_.units[unit];
  for (std::size_t first = 0; first < place.count; first += place_.piece_values) {
    const auto count = std::min(place_.piece_values, place.count - first);
    auto& half = take_half();
    const auto staged = half.memory.narrow(0, 0, static_cast<std::int64_t>(count));
    staged.copy_(view_of(values_.subspan(place.first + first, count)));
    its.flat.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count))
        .copy_(staged, /*non_blocking=*/true);
    note_use_of(half);
  }
  its.state = State::there;
}

void Staging::fetch(std::vector<Gradient> gradients) {
  const at::NoGradGuard no_grad;
  struct Piece {
    Gradient* gradient = nullptr;
    std::size_t first = 0, count = 0;
    Half* half = nullptr;
  };
  const auto finish = [](const Piece& piece) {
    await(*piece.half);
    const auto into = view_of(piece.gradient->here.subspan(piece.first, piece.count));
    const auto staged = piece.half->memory.narrow(0, 0, static_cast<std::int64_t>(piece.count));
    piece.gradient->adds ? into.add_(staged) : into.copy_(staged);
    if (piece.first + piece.count == piece.gradient->here.size()) piece.gradient->done();
  };
  // While one piece is put in its place, the next one is on its way.
  std::optional<Piece> before;
  for (auto& gradient : gradients) {
    const auto flat = gradient.there.contiguous().view({-1});
    for (std::size_t first = 0; first < gradient.here.size(); first += place_.piece_values) {
      const auto count = std::min(place_.piece_values, gradient.here.size() - first);
      auto& half = take_half();
      half.memory.narrow(0, 0, static_cast<std::int64_t>(count))
          .copy_(flat.narrow(0, static_cast<std::int64_t>(first), static_cast<std::int64_t>(count)),
                 /*non_blocking=*/true);
      note_use_of(half);
      if (before) finish(*before);
      before = Piece{&gradient, first, count, &half};
    }
    gradient.there.reset();
  }
  if (before) finish(*before);
}

Staging::Half& Staging::take_half() {
  auto& half = halves_.at(next_half_);
  next_half_ = 1 - next_half_;
  await(half);
  return half;
}

void Staging::note_use_of(Half& half) const {
  if (!half.used) return;
  half.used->record(c10::impl::VirtualGuardImpl(place_.device.type()).getStream(place_.device));
}

void Staging::await(const Half& half) {
  if (half.used) half.used->synchronize();
}

}  // namespace dlaunch::trainer
