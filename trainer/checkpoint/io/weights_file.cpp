#include "trainer/checkpoint/io/weights_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/io/shard_reader.h"

namespace dlaunch::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's integers are little-endian");

constexpr std::string_view kPrefix = "transformer.";
constexpr std::size_t kTroublesNamedMax = 4;
/// Converted at a time.
constexpr std::size_t kBlockValues = 64 * 1024;

using ByName = std::map<std::string, const FileTensor*, std::less<>>;

tl::unexpected<Error> wrong(const std::filesystem::path& path, const std::string& what) {
  return failure(std::errc::invalid_argument,
                 "loading weights from " + path.string() + ": " + what);
}

bool is_readable(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}

const FileTensor* find(const ByName& tensors, std::string_view name) {
  auto found = tensors.find(name);
  if (found == tensors.end() && name.starts_with(kPrefix)) {
    found = tensors.find(name.substr(kPrefix.size()));
  }
  return found == tensors.end() ? nullptr : found->second;
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const auto size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

/// Empty: it can be read.
std::string trouble_with(const FileTensor* tensor, const TensorSpec& spec) {
  if (tensor == nullptr) return spec.name + " is missing";
  if (tensor->spec.shape != spec.shape) {
    return spec.name + " is " + text_of(tensor->spec.shape) + ", the model's is " +
           text_of(spec.shape);
  }
  if (is_readable(tensor->spec.dtype)) return "";
  return spec.name + " is of type " + std::string(name_of(tensor->spec.dtype)) +
         ", not F32, F16 or BF16";
}

Result<void> check(const std::filesystem::path& path, const ByName& tensors,
                   std::span<const TensorDestination> wanted) {
  std::vector<std::string> troubles;
  for (const auto& destination : wanted) {
    auto trouble = trouble_with(find(tensors, destination.spec.name), destination.spec);
    if (!trouble.empty()) troubles.push_back(std::move(trouble));
  }
  if (troubles.empty()) return {};
  std::string all;
  for (std::size_t i = 0; i < std::min(troubles.size(), kTroublesNamedMax); ++i) {
    all += (i == 0 ? "" : "; ") + troubles[i];
  }
  if (troubles.size() > kTroublesNamedMax) {
    all += "; and " + std::to_string(troubles.size() - kTroublesNamedMax) + " more";
  }
  return wrong(path, all + "; does [trainer.model] describe the model of this file?");
}

Result<void> read_rows(ShardReader& reader, const FileTensor& tensor,
                       const TensorDestination& destination) {
  const auto width = bytes_of(tensor.spec.dtype);
  const auto row = bytes_of_row(tensor.spec.dtype, tensor.spec.shape);
  std::uint64_t at = destination.first_row * row;
  if (tensor.spec.dtype == Dtype::f32) return reader.read_tensor(tensor, at, destination.data);
  const auto convert = tensor.spec.dtype == Dtype::f16 ? float_of_half : float_of_bfloat;
  std::vector<std::byte> block(kBlockValues * width);
  auto into = destination.data;
  while (!into.empty()) {
    const auto values = std::min(kBlockValues, into.size() / sizeof(float));
    const auto bytes = std::span(block).first(values * width);
    if (auto read = reader.read_tensor(tensor, at, bytes); !read) return read;
    for (std::size_t i = 0; i < values; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.subspan(i * width).data(), sizeof bits);
      const float value = convert(bits);
      std::memcpy(into.subspan(i * sizeof(float)).data(), &value, sizeof value);
    }
    at += bytes.size();
    into = into.subspan(values * sizeof(float));
  }
  return {};
}

}  // namespace

float float_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  float value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? HUGE_VALF : std::nanf("");
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    value = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

float float_of_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

Result<void> load_weights(const std::filesystem::path& path,
                          std::span<const TensorDestination> wanted) {
  auto reader = ShardReader::open_any(path);
  if (!reader) {
    return reader.error().code ? tl::unexpected(reader.error()) : wrong(path, reader.error().doing);
  }
  ByName tensors;
  for (const auto& tensor : reader->tensors()) tensors.emplace(tensor.spec.name, &tensor);
  if (auto good = check(path, tensors, wanted); !good) return good;
  for (const auto& destination : wanted) {
    const auto read = read_rows(*reader, *find(tensors, destination.spec.name), destination);
    if (!read) return read;
  }
  return {};
}

}  // namespace dlaunch::checkpoint
