// What a checkpoint knows of a tensor: name, element type, shape and the rows at hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dlaunch::checkpoint {

enum class Dtype : std::uint8_t {
  boolean,
  u8,
  i8,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};

[[nodiscard]] std::size_t bytes_of(Dtype dtype);
/// As safetensors writes it: "F32".
[[nodiscard]] std::string_view name_of(Dtype dtype);
[[nodiscard]] std::optional<Dtype> dtype_from_name(std::string_view name);

using Shape = std::vector<std::uint64_t>;

/// Far above any model here; bounds a header or manifest before memory is taken for it.
constexpr std::size_t kTensorsMax = 100'000;
constexpr std::size_t kDimensionsMax = 8;
constexpr std::size_t kTensorNameBytesMax = 512;

/// Bytes of a whole tensor; nullopt: more than 2^63.
[[nodiscard]] std::optional<std::uint64_t> bytes_of(Dtype dtype,
                                                    std::span<const std::uint64_t> shape);
/// What dim 0 counts; a tensor without dimensions has one row.
[[nodiscard]] std::uint64_t rows_of(std::span<const std::uint64_t> shape);
/// The tensor must fit 2^63 bytes; 0 if a dimension other than the first is 0.
[[nodiscard]] std::uint64_t bytes_of_row(Dtype dtype, std::span<const std::uint64_t> shape);

struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;  ///< of the whole tensor, whatever the number of ranks
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// A tensor to be saved: rows [first_row, first_row + rows) of it lie in `data`, C order. A rank
/// with the whole tensor (DDP) gives all rows; the layout picks those that this rank writes.
struct TensorView {
  TensorSpec spec;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  std::span<const std::byte> data;
};

/// A tensor to be loaded: rows [first_row, first_row + rows) go to `data`.
struct TensorDestination {
  TensorSpec spec;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
  std::span<std::byte> data;
};

}  // namespace dlaunch::checkpoint
