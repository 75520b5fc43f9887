// Opens, judges and maps the training text.
#include "trainer/data/io/text_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/io/file_descriptor.h"

namespace dlaunch::trainer {

Result<TextFile> TextFile::open(const std::string& path, std::uint64_t bytes_min) {
  const auto doing = "reading the training text " + path;
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return failure_from_errno(errno, doing + " ([trainer.data] text; it must be on every host)");
  }
  struct stat facts {};
  const bool known = ::fstat(file.get(), &facts) == 0;
  const int trouble = errno;
  void* memory = MAP_FAILED;
  const auto bytes = known ? static_cast<std::uint64_t>(facts.st_size) : 0;
  const bool regular = known && S_ISREG(facts.st_mode);
  const bool long_enough = regular && bytes >= bytes_min && bytes > 0;
  if (long_enough) memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  const int map_trouble = errno;
  if (!known) return failure_from_errno(trouble, doing);
  if (!regular) return failure(std::error_code{}, doing + ": it is no regular file");
  if (!long_enough) {
    return failure(std::error_code{},
                   doing + ": it has " + std::to_string(bytes) + " bytes, and one sequence needs " +
                       std::to_string(bytes_min) + " ([trainer.model] context + 1)");
  }
  if (memory == MAP_FAILED) return failure_from_errno(map_trouble, doing);
  return TextFile({static_cast<const std::byte*>(memory), bytes});
}

TextFile::~TextFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}
TextFile::TextFile(TextFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
TextFile& TextFile::operator=(TextFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace dlaunch::trainer
