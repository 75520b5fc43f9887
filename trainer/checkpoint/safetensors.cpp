#include "trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/check.h"
#include "trainer/checkpoint/json_cursor.h"

namespace dlaunch::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kMetadataBytesMax = 1024 * 1024;
constexpr std::size_t kMetadataEntriesMax = 1024;
constexpr std::size_t kDtypeNameBytesMax = 16;

tl::unexpected<Error> refused(std::string what) {
  return tl::unexpected(Error{{}, "reading a safetensors header: " + what});
}

/// {"key": "text", …}; its contents mean nothing to us, but must be well-formed.
void skip_metadata(JsonCursor& cursor) {
  if (!cursor.expect('{') || cursor.next_is('}')) return;
  std::set<std::string> keys;
  do {
    const auto key = cursor.string(kMetadataBytesMax);
    if (!key || !cursor.expect(':') || !cursor.string(kMetadataBytesMax)) return;
    if (!keys.insert(*key).second) return cursor.fail("the metadata has a key twice");
    if (keys.size() > kMetadataEntriesMax) return cursor.fail("the metadata has too many keys");
  } while (cursor.next_is(','));
  static_cast<void>(cursor.expect('}'));
}

void read_shape(JsonCursor& cursor, Shape& shape) {
  if (!cursor.expect('[') || cursor.next_is(']')) return;
  do {
    const auto dimension = cursor.number();
    if (!dimension) return;
    if (shape.size() == kDimensionsMax) return cursor.fail("a tensor has too many dimensions");
    shape.push_back(*dimension);
  } while (cursor.next_is(','));
  static_cast<void>(cursor.expect(']'));
}

void read_offsets(JsonCursor& cursor, FileTensor& tensor) {
  if (!cursor.expect('[')) return;
  const auto first = cursor.number();
  if (!first || !cursor.expect(',')) return;
  const auto last = cursor.number();
  if (!last || !cursor.expect(']')) return;
  if (*last < *first) return cursor.fail("a tensor ends before it begins");
  tensor.first_byte = *first;
  tensor.bytes = *last - *first;
}

void read_dtype(JsonCursor& cursor, FileTensor& tensor) {
  const auto name = cursor.string(kDtypeNameBytesMax);
  if (!name) return;
  const auto dtype = dtype_from_name(*name);
  if (!dtype) return cursor.fail("the element type \"" + *name + "\" is not known");
  tensor.spec.dtype = *dtype;
}

/// {"dtype": …, "shape": […], "data_offsets": […]} in any order, each exactly once.
void read_tensor(JsonCursor& cursor, FileTensor& tensor) {
  if (!cursor.expect('{')) return;
  std::set<std::string> keys;
  do {
    const auto key = cursor.string(kDtypeNameBytesMax);
    if (!key || !cursor.expect(':')) return;
    if (!keys.insert(*key).second) return cursor.fail("a tensor has \"" + *key + "\" twice");
    if (*key == "dtype") {
      read_dtype(cursor, tensor);
    } else if (*key == "shape") {
      read_shape(cursor, tensor.spec.shape);
    } else if (*key == "data_offsets") {
      read_offsets(cursor, tensor);
    } else {
      return cursor.fail("a tensor has the unknown key \"" + *key + "\"");
    }
  } while (cursor.next_is(','));
  if (!cursor.expect('}')) return;
  if (keys.size() != 3) return cursor.fail("a tensor lacks its type, shape or place");
  const auto bytes = bytes_of(tensor.spec.dtype, tensor.spec.shape);
  if (!bytes) return cursor.fail("a tensor's shape is larger than any file");
  if (*bytes != tensor.bytes) return cursor.fail("a tensor's shape does not fit its place");
}

void read_tensors(JsonCursor& cursor, std::vector<FileTensor>& tensors) {
  if (!cursor.expect('{') || cursor.next_is('}')) return;
  std::set<std::string> names;
  do {
    const auto name = cursor.string(kTensorNameBytesMax);
    if (!name || !cursor.expect(':')) return;
    if (!names.insert(*name).second) return cursor.fail("\"" + *name + "\" appears twice");
    if (names.size() > kTensorsMax) return cursor.fail("there are too many tensors");
    if (*name == kMetadataKey) {
      skip_metadata(cursor);
    } else if (name->empty()) {
      return cursor.fail("a tensor has no name");
    } else {
      FileTensor& tensor = tensors.emplace_back();
      tensor.spec.name = *name;
      read_tensor(cursor, tensor);
    }
  } while (cursor.next_is(','));
  static_cast<void>(cursor.expect('}'));
}

}  // namespace

std::vector<FileTensor> place(std::span<const TensorSpec> parts) {
  std::vector<FileTensor> placed;
  std::uint64_t at = 0;
  for (const TensorSpec& part : parts) {
    const auto bytes = bytes_of(part.dtype, part.shape);
    DL_CHECK(is_utf8(part.name), "tensor names are UTF-8");
    DL_CHECK(bytes.has_value(), "a tensor in memory fits into a file");
    placed.push_back({part, at, *bytes});
    at += *bytes;
  }
  return placed;
}

std::string format_head(std::span<const FileTensor> tensors) {
  std::string json = "{" + nlohmann::json(kMetadataKey).dump() + R"(:{"format":"pt"})";
  for (const FileTensor& tensor : tensors) {
    const nlohmann::json entry = {
        {"dtype", name_of(tensor.spec.dtype)},
        {"shape", tensor.spec.shape},
        {"data_offsets", {tensor.first_byte, tensor.first_byte + tensor.bytes}}};
    json += "," + nlohmann::json(tensor.spec.name).dump() + ":" + entry.dump();
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(json.size());
  std::string head(kLengthBytes, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  return head + json;
}

Result<std::uint64_t> json_bytes(std::span<const std::byte, kLengthBytes> length_bytes,
                                 std::uint64_t file_bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, length_bytes.data(), sizeof length);
  if (length < 2 || length > kHeaderBytesMax || file_bytes < kLengthBytes ||
      length > file_bytes - kLengthBytes) {
    return refused("its length of " + std::to_string(length) + " bytes cannot be");
  }
  return length;
}

Result<std::vector<FileTensor>> parse_header(std::string_view json, std::uint64_t data_bytes) {
  if (json.empty() || json.front() != '{') return refused("it does not start with '{'");
  JsonCursor cursor(json);
  std::vector<FileTensor> tensors;
  read_tensors(cursor, tensors);
  static_cast<void>(cursor.expect_end());
  if (cursor.failed()) return refused(cursor.trouble());

  std::ranges::stable_sort(tensors, [](const FileTensor& left, const FileTensor& right) {
    return std::pair(left.first_byte, left.bytes) < std::pair(right.first_byte, right.bytes);
  });
  std::uint64_t at = 0;
  for (const FileTensor& tensor : tensors) {
    if (tensor.first_byte != at) {
      return refused("\"" + tensor.spec.name + "\" leaves a gap or overlaps another");
    }
    at += tensor.bytes;
  }
  if (at != data_bytes) {
    return refused("it describes " + std::to_string(at) + " bytes of tensors, the file has " +
                   std::to_string(data_bytes));
  }
  return tensors;
}

}  // namespace dlaunch::checkpoint
