#include "trainer/model/unit_chain.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "trainer/model/io/device.h"
#include "trainer/model/staging.h"

namespace dlaunch::trainer {
namespace {

std::vector<std::int64_t> sizes_of(const Parameter& parameter) {
  return {parameter.shape.begin(), parameter.shape.end()};
}

constexpr int kCudaOutOfMemory = 2;

/// Calls into LibTorch; what it throws becomes an Error here and nowhere else.
template <class Work>
auto translated(const char* doing, Work work) -> Result<decltype(work())> {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return {};
    } else {
      return work();
    }
  } catch (const std::bad_alloc&) {
    return failure(std::errc::not_enough_memory, doing);
  } catch (const c10::OutOfMemoryError& error) {
    return failure(std::errc::not_enough_memory,
                   std::string(doing) + ": " + first_line(error.what_without_backtrace()));
  } catch (const c10::AcceleratorError& error) {
    return failure(error.get_error_code() == kCudaOutOfMemory ? std::errc::not_enough_memory
                                                              : std::errc::io_error,
                   std::string(doing) + ": " + first_line(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    const std::string_view what = error.what_without_backtrace();
    const bool memory = what.find("can't allocate memory") != std::string_view::npos;
    const auto code =
        memory ? std::make_error_code(std::errc::not_enough_memory) : std::error_code{};
    return failure(code, std::string(doing) + ": " + std::string(what));
  } catch (const std::exception& error) {
    return failure(std::error_code{}, std::string(doing) + ": " + error.what());
  }
}

}  // namespace

UnitChain::UnitChain(const ParameterLayout& layout, std::span<float> values) : layout_(layout) {
  note_use();
  if (place().staged) staging_ = std::make_unique<Staging>(layout_, values, place());
  for (std::size_t i = 0; i < layout_.parameters.size(); ++i) {
    const auto& parameter = layout_.parameters[i];
    auto leaf = staging_ ? staging_->tensor(i)
                         : at::from_blob(&values[parameter.first], sizes_of(parameter), at::kFloat);
    leaf.set_requires_grad(true);
    leaves_.push_back(std::move(leaf));
  }
  owners_.resize(leaves_.size());
  for (std::size_t unit = 0; unit < layout_.units.size(); ++unit) {
    const auto& its = layout_.units[unit];
    for (std::size_t i = 0; i < its.parameters; ++i) owners_[its.first_parameter + i].unit = unit;
  }
  if (staging_) return;  // gradients are fetched a unit at a time
  for (std::size_t i = 0; i < leaves_.size(); ++i) watch(i);
}
UnitChain::~UnitChain() = default;

void UnitChain::values_changed(std::size_t unit) {
  if (staging_) staging_->values_changed(unit);
}
void UnitChain::values_gone(std::size_t unit) {
  if (staging_) staging_->values_gone(unit);
}
void UnitChain::bring_values(std::size_t unit) {
  if (!staging_) return;
  staging_->bring(unit);
  if (const auto lender = layout_.units[unit].borrows) staging_->bring(*lender);
}

bool UnitChain::runs_again(std::size_t) const { return false; }

at::Tensor UnitChain::tokens(const Batch& batch, std::span<const std::int64_t> ids) const {
  const auto here =
      at::from_blob(const_cast<std::int64_t*>(ids.data()),
                    {std::int64_t{batch.sequences}, std::int64_t{batch.context}}, at::kLong);
  return staging_ ? staging_->there(here) : here;
}

Result<void> UnitChain::forward_unit(std::size_t unit, std::size_t slot, const Batch& batch) {
  return translated("computing the loss", [&] { run_forward(unit, slot, batch); });
}

void UnitChain::run_forward(std::size_t unit, std::size_t slot, const Batch& batch) {
  auto& pass = passes_.at(slot);
  pass.inputs.resize(units());
  pass.outputs.resize(units());
  if (unit > 0) {
    // Each unit is a graph of its own: what leaves one enters the next as a leaf.
    pass.inputs[unit] = pass.outputs[unit - 1].variable_data().set_requires_grad(true);
  }
  bring_values(unit);
  const at::AutoGradMode graph(!runs_again(unit));
  pass.outputs[unit] = apply(unit, pass.inputs[unit], batch);
  pass.batch = batch;
}

Result<void> UnitChain::evaluate_unit(std::size_t unit, std::size_t slot, const Batch& batch) {
  return translated("computing the validation loss", [&] {
    const at::NoGradGuard no_grad;
    bring_values(unit);
    auto& pass = passes_.at(slot);
    pass.inputs.clear();
    pass.outputs.resize(units());
    const auto stream = unit > 0 ? std::exchange(pass.outputs[unit - 1], {}) : at::Tensor();
    pass.outputs[unit] = apply(unit, stream, batch);
  });
}

Result<double> UnitChain::loss(std::size_t slot) {
  return translated("computing the loss",
                    [&] { return double{passes_.at(slot).outputs.back().item<float>()}; });
}

Result<void> UnitChain::backward_unit(std::size_t unit, std::size_t slot,
                                      std::span<float> gradients, const Ready& ready) {
  return translated("computing the gradient", [&] {
    gradients_ = gradients;
    ready_ = &ready;
    running_ = unit;
    slot_ = slot;
    run_backward();
    ready_ = nullptr;
  });
}

void UnitChain::run_backward() {
  const auto unit = running_;
  auto& pass = passes_.at(slot_);
  const bool last = unit + 1 == units();
  const auto upstream = last ? at::Tensor() : pass.inputs[unit + 1].grad();
  if (!last) pass.inputs[unit + 1].reset();
  auto output = std::exchange(pass.outputs[unit], {});
  if (layout_.units[unit].reads_in_backward) bring_values(unit);
  if (runs_again(unit)) output = apply(unit, pass.inputs[unit], pass.batch);
  output.backward(upstream);
  if (staging_) fetch_gradients();
  const auto& its = layout_.units[unit];
  for (std::size_t i = 0; i < its.parameters; ++i) {
    if (std::exchange(owners_[its.first_parameter + i].complete, false)) continue;
    throw std::logic_error(layout_.parameters[its.first_parameter + i].name +
                           " has no gradient: the unit that it belongs to does not use it");
  }
}

/// When a leaf's gradient is complete it is moved into the flat array, so that no second copy of
/// all gradients is ever kept.
void UnitChain::watch(std::size_t index) {
  auto accumulator = torch::autograd::impl::grad_accumulator(leaves_[index]);
  accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
      [this, index](const torch::autograd::variable_list& outputs,
                    const torch::autograd::variable_list&) {
        take_gradient(index);
        return outputs;
      }));
  accumulators_.push_back(std::move(accumulator));  // else the hook would go with it
}

void UnitChain::take_gradient(std::size_t index) {
  auto& gradient = leaves_[index].mutable_grad();
  const at::NoGradGuard no_grad;
  const auto into = at::from_blob(place_of_gradient(index).data(),
                                  sizes_of(layout_.parameters[index]), at::kFloat);
  if (is_added(index)) {
    into.add_(gradient);
  } else {
    into.copy_(gradient);
  }
  gradient.reset();
  note_gradient(index);
}

void UnitChain::fetch_gradients() {
  std::vector<Staging::Gradient> gradients;
  const auto add = [&](std::size_t unit) {
    const auto& its = layout_.units[unit];
    for (std::size_t i = its.first_parameter; i < its.first_parameter + its.parameters; ++i) {
      auto& gradient = leaves_[i].mutable_grad();
      if (!gradient.defined()) continue;
      gradients.push_back({std::exchange(gradient, {}), place_of_gradient(i), is_added(i),
                           [this, i] { note_gradient(i); }});
    }
  };
  add(running_);
  if (const auto lender = layout_.units[running_].borrows) add(*lender);
  staging_->fetch(std::move(gradients));
}

std::span<float> UnitChain::place_of_gradient(std::size_t index) const {
  const auto& parameter = layout_.parameters[index];
  return gradients_.subspan(parameter.first, parameter.count);
}

bool UnitChain::is_added(std::size_t index) {
  auto& owner = owners_[index];
  return running_ == owner.unit && std::exchange(owner.lent.at(slot_), false);
}

void UnitChain::note_gradient(std::size_t index) {
  auto& owner = owners_[index];
  if (running_ == owner.unit) {
    owner.complete = true;
    (*ready_)(index);
  } else {
    owner.lent.at(slot_) = true;
  }
}

}  // namespace dlaunch::trainer
