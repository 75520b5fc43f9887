// Which bytes of which files a rank must read to get the rows that it wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

/// Bytes [first_byte, first_byte + into.size()) of one tensor's part in a file.
struct PartRead {
  std::uint64_t first_byte = 0;
  std::span<std::byte> into;
};

struct FilePlan {
  std::map<std::string, TensorSpec> parts;  ///< all that the manifest says is in the file
  std::map<std::string, PartRead> reads;    ///< by tensor; those wanted
  bool whole = false;                       ///< every byte of every part is wanted
};

/// By file name; only files with something wanted. Fails when the checkpoint lacks a tensor or
/// holds it with another type or shape.
[[nodiscard]] Result<std::map<std::string, FilePlan>> plan_restore(
    const Manifest& manifest, std::span<const TensorDestination> wanted);

}  // namespace dlaunch::checkpoint
