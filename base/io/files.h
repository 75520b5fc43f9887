// Whole files: read, hashed, replaced so that a power cut leaves the old or the new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dlaunch {

/// At most `bytes_max`; what is beyond is not read. A pipe without a writer does not hold it up.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

struct HashedFile {
  std::string hash;  ///< as ContentHash::hex
  std::uint64_t bytes = 0;
};
/// Takes as long as reading the file does: not for a thread that others wait for.
[[nodiscard]] Result<HashedFile> hash_file(const std::string& path);

/// Temporary name, fsync, rename, fsync of the directory: the old content or the new, never a part.
/// The user's umask decides about the mode.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view content);
/// Readers see the old content or the new one; a power cut may leave less than either. For what is
/// written often or can be had again. Mode 0600.
[[nodiscard]] Result<void> swap_file(const std::string& path, std::string_view content);
/// New names in it survive a power cut.
[[nodiscard]] Result<void> sync_directory(const std::string& path);

}  // namespace dlaunch
