// Integers on the mesh are little-endian, as the floats beside them are.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace dlaunch::comm {

static_assert(std::endian::native == std::endian::little,
              "floats travel as they lie in memory: all ranks must be little-endian");

template <class T>
void put(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.subspan(offset, sizeof value).data(), &value, sizeof value);
}

template <class T>
[[nodiscard]] T get(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

}  // namespace dlaunch::comm
