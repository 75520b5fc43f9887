// A file of training data, mapped into memory: pages come as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace dlaunch::trainer {

/// As long as these are the same, the content is, as far as the file system tells.
struct FileMarks {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  std::int64_t modified_seconds = 0, modified_nanoseconds = 0;
  friend bool operator==(const FileMarks&, const FileMarks&) = default;
};

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
  /// From when it was opened.
  [[nodiscard]] const FileMarks& marks() const { return marks_; }

 private:
  std::span<const std::byte> bytes_;
  FileMarks marks_;
};

}  // namespace dlaunch::trainer
