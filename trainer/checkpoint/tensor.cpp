#include "trainer/checkpoint/tensor.h"

#include <array>
#include <limits>

#include "base/check.h"

namespace dlaunch::checkpoint {
namespace {

struct DtypeFacts {
  std::string_view name;
  std::size_t bytes;
};

/// In the order of the enum.
constexpr std::array<DtypeFacts, 13> kFacts{{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"F32", 4},
                                             {"F64", 8},
                                             {"I64", 8},
                                             {"U64", 8}}};

const DtypeFacts& facts_of(Dtype dtype) { return kFacts[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t bytes_of(Dtype dtype) { return facts_of(dtype).bytes; }

std::string_view name_of(Dtype dtype) { return facts_of(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> bytes_of(Dtype dtype, std::span<const std::uint64_t> shape) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = bytes_of(dtype);
  bool empty = false;
  // A dimension of 0 must not hide that the others do not fit.
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0) {
      empty = true;
      continue;
    }
    if (dimension > kMost / bytes) return std::nullopt;
    bytes *= dimension;
  }
  return empty ? 0 : bytes;
}

std::uint64_t rows_of(std::span<const std::uint64_t> shape) {
  return shape.empty() ? 1 : shape.front();
}

std::uint64_t bytes_of_row(Dtype dtype, std::span<const std::uint64_t> shape) {
  const auto bytes = bytes_of(dtype, shape.empty() ? shape : shape.subspan(1));
  DL_CHECK(bytes.has_value(), "shapes are checked before their rows are counted");
  return *bytes;
}

}  // namespace dlaunch::checkpoint
