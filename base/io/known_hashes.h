// Hashes of large files from earlier starts, so that one does not read the trainer and the data
// again.
#pragma once

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string>

#include "base/io/files.h"
#include "base/result.h"

namespace dlaunch {

/// An entry holds while the file has the same inode, size and times; what changed in the last
/// seconds is never kept, because a second change might leave the same times. Agents of several
/// jobs may write the file at once: the last one wins, the others hash again.
class KnownHashes {
 public:
  /// A file that is missing or cannot be understood is empty; so is an empty `path`.
  explicit KnownHashes(std::string path);

  [[nodiscard]] std::optional<std::string> find(const std::string& file,
                                                const struct stat& status) const;
  /// `status` was taken before the file was read; `now` in Unix seconds.
  void add(const std::string& file, const struct stat& status, const std::string& hash, double now);
  /// Nothing is lost but time when it cannot be written.
  void save() const;

 private:
  std::string path_;
  std::map<std::string, std::string> entries_;  ///< by file: its marks, a blank, its hash
  bool changed_ = false;
};

/// As hash_file, without reading a file that is known.
[[nodiscard]] Result<HashedFile> hash_file(const std::string& path, KnownHashes& known);

}  // namespace dlaunch
