// A file of training data, mapped into memory: pages come as they are read.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace dlaunch::trainer {

/// Owns the mapping. The file must not shrink while it is mapped.
class MappedFile {
 public:
  /// Fails when the file is missing or no regular file; an empty one is an empty mapping. `doing`
  /// begins the error: "reading the training text /data/kjv.txt".
  [[nodiscard]] static Result<MappedFile> open(const std::string& path, const std::string& doing);
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace dlaunch::trainer
