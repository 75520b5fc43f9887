#include "trainer/data/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/io/file_descriptor.h"

namespace dlaunch::trainer {

Result<MappedFile> MappedFile::open(const std::string& path, const std::string& doing) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return failure_from_errno(errno, doing + " ([trainer.data]; it must be on every host)");
  }
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) return failure_from_errno(errno, doing);
  if (!S_ISREG(facts.st_mode)) {
    return failure(std::errc::invalid_argument, doing + ": it is no regular file");
  }
  const auto bytes = static_cast<std::size_t>(facts.st_size);
  MappedFile mapped;
  mapped.marks_ = {facts.st_dev, facts.st_ino, bytes, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
  if (bytes == 0) return mapped;
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return failure_from_errno(errno, doing);
  mapped.bytes_ = {static_cast<const std::byte*>(memory), bytes};
  return mapped;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}
MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), marks_(other.marks_) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(marks_, other.marks_);
  return *this;
}

}  // namespace dlaunch::trainer
