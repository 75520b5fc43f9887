// Writes shard files so that they are on the disk, whole, before anybody is told.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace dlaunch::checkpoint {

struct WrittenFile {
  std::string hash;
  bool direct_io = true;
};

/// All missing directories of the path; other ranks may be making the same ones.
[[nodiscard]] Result<void> make_directories(const std::filesystem::path& path);

/// Makes `path`, which must not exist, from the first `bytes` of `image`, a page-aligned buffer of
/// whole blocks. Room is taken first, then blocks are hashed and written around the page cache
/// where the file system allows it. On an error, or once `cancelled`, the file is removed again.
[[nodiscard]] Result<WrittenFile> write_image(const std::filesystem::path& path,
                                              std::span<const std::byte> image, std::uint64_t bytes,
                                              const std::atomic<bool>& cancelled);

}  // namespace dlaunch::checkpoint
