// Reads a committed checkpoint with any number of ranks, whatever number wrote it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/tensor.h"

namespace dlaunch::checkpoint {

/// `step_directory`: ".../step-800". The error names the file.
[[nodiscard]] Result<Manifest> read_manifest(const std::filesystem::path& step_directory);

/// Of an error of this file: the checkpoint's own bytes are wrong or missing. Otherwise the storage
/// did not answer, and the same checkpoint may be whole in a moment.
[[nodiscard]] bool is_damage(const Error& error);

struct LoadReport {
  Manifest manifest;
  std::uint64_t bytes_read = 0;
  std::uint32_t files_verified = 0;  ///< whose whole-file hash was compared
};

/// Fills every destination, reading only the byte ranges that it needs. Sizes and headers are
/// always compared with the manifest; a file that is needed whole is also compared by hash (once
/// committed). After an error the destinations hold rubbish and the text names the damaged file.
[[nodiscard]] Result<LoadReport> load_checkpoint(const std::filesystem::path& step_directory,
                                                 std::span<const TensorDestination> wanted);

}  // namespace dlaunch::checkpoint
