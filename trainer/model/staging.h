// The way of values and gradients between the host's flat arrays and the memory of a device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "trainer/model/parameters.h"

namespace dlaunch::trainer {

/// Of one copy, in values: two of them are on their way at a time, in pinned memory of the host.
constexpr std::size_t kPieceValues = std::size_t{4} << 20;

/// Where models compute.
struct Place {
  at::Device device{at::kCPU};
  bool staged = false;  ///< in memory of its own; on the CPU only tests want that
  std::size_t piece_values = kPieceValues;
};
/// Of this process; a model keeps to what was said when it was made.
[[nodiscard]] Place place();
void set_place(const Place& place);
/// A model was made in this process.
[[nodiscard]] bool was_used();
void note_use();

/// Used by one thread. What LibTorch throws passes through.
class Staging {
 public:
  /// `layout` and `values` outlive it.
  Staging(const ParameterLayout& layout, std::span<const float> values, const Place& place);

  /// Of a parameter, without a gradient; its memory comes and goes with that of its unit.
  [[nodiscard]] at::Tensor tensor(std::size_t index) const;
  /// Anything of the host, in the device's memory.
  [[nodiscard]] at::Tensor there(const at::Tensor& here) const;

  /// The unit's values in the flat array are others than before.
  void values_changed(std::size_t unit) { units_.at(unit).state = State::changed; }
  /// They are gone: nothing is kept of them here either.
  void values_gone(std::size_t unit);
  /// They are on the device, in the order of its work; copies only what has changed.
  void bring(std::size_t unit);

  struct Gradient {
    at::Tensor there;       ///< of one parameter
    std::span<float> here;  ///< its place in the host's array
    bool adds = false;      ///< to what is in that place
    std::function<void()> done;
  };
  /// Returns when all are in their places; `done` of each as soon as it is, in the given order.
  void fetch(std::vector<Gradient> gradients);

 private:
  enum class State { gone, changed, there };
  struct OfUnit {
    at::Tensor flat;
    State state = State::changed;
  };
  /// Memory that a copy goes through, and the last copy that used it.
  struct Half {
    at::Tensor memory;
    std::optional<c10::Event> used;
  };
  [[nodiscard]] Half& take_half();
  void note_use_of(Half& half) const;
  static void await(const Half& half);
  [[nodiscard]] bool on_cpu() const { return place_.device.is_cpu(); }

  const ParameterLayout& layout_;
  const std::span<const float> values_;
  const Place place_;
  std::vector<OfUnit> units_;
  std::vector<at::Tensor> tensors_;  ///< of the parameters: parts of the units' memory
  std::array<Half, 2> halves_;
  std::size_t next_half_ = 0;
};

}  // namespace dlaunch::trainer
