// The head of a safetensors file: written by us, read from whoever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

/// Little-endian count of the bytes of JSON that follow it.
constexpr std::size_t kLengthBytes = 8;
/// kTensorsMax entries of ours fit; the format itself would allow 100 MB.
constexpr std::size_t kHeaderBytesMax = 32 * 1024 * 1024;

/// One tensor of a file; its bytes are [first_byte, first_byte + bytes) after the head.
struct FileTensor {
  TensorSpec spec;  ///< the shape is that of the part in this file
  std::uint64_t first_byte = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};

/// Places tensors one after the other in the order given.
[[nodiscard]] std::vector<FileTensor> place(std::span<const TensorSpec> parts);
/// Length, JSON and padding, so that the data starts at a multiple of 8. Names must be printable
/// ASCII or UTF-8 and unique.
[[nodiscard]] std::string format_head(std::span<const FileTensor> tensors);

/// How many bytes of JSON follow the first eight, which are `length_bytes`; refuses what cannot be
/// in a file of `file_bytes`.
[[nodiscard]] Result<std::uint64_t> json_bytes(
    std::span<const std::byte, kLengthBytes> length_bytes, std::uint64_t file_bytes);
/// `json` is the header without its length; `data_bytes` is what follows it in the file. Strict:
/// known keys only, no duplicates, sizes that fit, data covered without gap or overlap. Tensors
/// come in the order of their bytes.
[[nodiscard]] Result<std::vector<FileTensor>> parse_header(std::string_view json,
                                                           std::uint64_t data_bytes);

}  // namespace dlaunch::checkpoint
