// The training text, mapped into memory: pages come as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace dlaunch::trainer {

/// Owns the mapping. The file must not shrink while it is mapped.
class TextFile {
 public:
  /// Fails when the file is missing, no regular file, or shorter than `bytes_min`.
  [[nodiscard]] static Result<TextFile> open(const std::string& path, std::uint64_t bytes_min);
  ~TextFile();
  TextFile(TextFile&& other) noexcept;
  TextFile& operator=(TextFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit TextFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace dlaunch::trainer
