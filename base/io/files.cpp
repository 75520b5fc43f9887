#include "base/io/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "base/io/file_descriptor.h"

namespace dlaunch {

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return failure_from_errno(errno, "opening " + path);
  return read_all(file.get(), bytes_max, path);
}

Result<HashedFile> hash_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return failure_from_errno(errno, "opening " + path);
  ContentHash hash;
  HashedFile result;
  std::vector<std::byte> bytes(1U << 20U);
  while (true) {
    const auto count = ::read(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "reading " + path);
    if (count == 0) break;
    hash.update(std::span(bytes).first(static_cast<std::size_t>(count)));
    result.bytes += static_cast<std::uint64_t>(count);
  }
  result.hash = hash.hex();
  return result;
}

Result<void> replace_file(const std::string& path, std::string_view content) {
  const auto part = path + ".tmp";
  {
    const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file.is_open()) return failure_from_errno(errno, "creating " + part);
    if (const auto written = write_all(file.get(), content); !written) {
      return failure(written.error().code, "writing " + part);
    }
    if (::fsync(file.get()) != 0) return failure_from_errno(errno, "syncing " + part);
  }
  if (::rename(part.c_str(), path.c_str()) != 0) {
    return failure_from_errno(errno, "renaming " + part);
  }
  const auto slash = path.rfind('/');
  return sync_directory(slash == std::string::npos ? "." : path.substr(0, slash));
}

Result<void> swap_file(const std::string& path, std::string_view content) {
  // Two processes may write the same one.
  const auto part = path + "." + std::to_string(::getpid());
  FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.is_open()) return failure_from_errno(errno, "creating " + part);
  auto written = write_all(file.get(), content);
  file.reset();
  if (written && ::rename(part.c_str(), path.c_str()) != 0) {
    written = failure_from_errno(errno, "renaming " + part);
  }
  if (!written) {
    ::unlink(part.c_str());
    return failure(written.error().code, "writing " + path);
  }
  return {};
}

Result<void> sync_directory(const std::string& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return failure_from_errno(errno, "opening " + path);
  if (::fsync(directory.get()) != 0) return failure_from_errno(errno, "syncing " + path);
  return {};
}

}  // namespace dlaunch
