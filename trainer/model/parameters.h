// A model's parameters as one flat array: names, shapes, places and first values. Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dlaunch::trainer {

struct Parameter {
  std::string name;  ///< in checkpoints
  std::vector<std::uint64_t> shape;
  std::size_t first = 0;  ///< in the flat array
  std::size_t count = 0;  ///< values that are there: all rows, or those that a rank keeps
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  bool decays = false;  ///< weight decay: matrices do, biases and gains do not
  float deviation = 0;  ///< of the first values; 0: all are `value`
  float value = 0;

  /// Values of one row: dim 0 counts rows.
  [[nodiscard]] std::size_t row_values() const { return rows == 0 ? 0 : count / rows; }
};

/// Parameters that are used together: what one rank gathers from the others at a time.
struct Unit {
  std::size_t first_parameter = 0;
  std::size_t parameters = 0;
  std::size_t first = 0;               ///< in the flat array
  std::size_t count = 0;               ///< with the gaps of alignment
  std::optional<std::size_t> borrows;  ///< another unit whose values it reads too
  bool reads_in_backward = true;       ///< its own values, to compute its gradient
};

struct ParameterLayout {
  std::vector<Parameter> parameters;  ///< in the order of the forward pass
  std::vector<Unit> units;            ///< likewise; each parameter is in one
  std::size_t count = 0;              ///< of the flat array, with the gaps of alignment
};

/// Puts one together in the order of the forward pass. Each parameter starts at a multiple of 64
/// bytes, as LibTorch's own tensors do, so that vector code splits its loops alike, and each unit
/// at a page.
class LayoutBuilder {
 public:
  /// What is added from now on is this unit's; valid until the next one begins.
  Unit& unit();
  /// Decays; first values are normal with this deviation.
  void matrix(std::string name, std::uint64_t rows, std::uint64_t columns, float deviation);
  /// Does not decay; all first values are `value`.
  void constant(std::string name, std::uint64_t size, float value);
  [[nodiscard]] ParameterLayout take();

 private:
  void close_unit();
  void add(Parameter parameter);
  ParameterLayout layout_;
};

/// A function of seed, names and rows alone. `flat` has `layout.count` values; gaps become 0.
void fill_first_values(const ParameterLayout& layout, std::uint64_t seed, std::span<float> flat);

}  // namespace dlaunch::trainer
