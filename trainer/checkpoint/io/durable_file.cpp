#include "trainer/checkpoint/io/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/check.h"
#include "base/content_hash.h"
#include "base/io/file_descriptor.h"
#include "trainer/checkpoint/io/aligned_buffer.h"

namespace dlaunch::checkpoint {
namespace {

/// Large enough for the disk's full speed, small enough to stop soon.
constexpr std::size_t kWriteBytes = 8 * 1024 * 1024;
constexpr mode_t kFileMode = 0666;  // the user's umask decides

struct OpenedFile {
  FileDescriptor file;
  bool direct_io;
};

Result<OpenedFile> open_new(const std::filesystem::path& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  FileDescriptor direct(::open(path.c_str(), kFlags | O_DIRECT, kFileMode));
  if (direct.is_open()) return OpenedFile{std::move(direct), true};
  if (errno != EINVAL) return failure_from_errno(errno, "making " + path.string());
  // A file system without O_DIRECT refuses only after it has made the file.
  ::unlink(path.c_str());
  FileDescriptor buffered(::open(path.c_str(), kFlags, kFileMode));
  if (!buffered.is_open()) return failure_from_errno(errno, "making " + path.string());
  return OpenedFile{std::move(buffered), false};
}

Result<void> take_room(int fd, std::uint64_t bytes, const std::string& name) {
  int error = 0;
  do {
    error = ::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  // Without support, a full disk is met while writing.
  if (error == 0 || error == EOPNOTSUPP || error == ENOSYS) return {};
  return failure_from_errno(error,
                            "taking room for " + std::to_string(bytes) + " bytes of " + name);
}

Result<void> write_all(OpenedFile& opened, std::span<const std::byte> bytes, std::uint64_t at,
                       const std::string& name) {
  while (!bytes.empty()) {
    const auto count =
        ::pwrite(opened.file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      at += static_cast<std::uint64_t>(count);
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    // Also a short write leaves an unaligned rest: from here on through the page cache.
    if (count < 0 && errno == EINVAL && opened.direct_io &&
        ::fcntl(opened.file.get(), F_SETFL, 0) == 0) {
      opened.direct_io = false;
      continue;
    }
    return failure_from_errno(count == 0 ? EIO : errno, "writing " + name);
  }
  return {};
}

Result<WrittenFile> fill(OpenedFile& opened, std::span<const std::byte> image, std::uint64_t bytes,
                         const std::atomic<bool>& cancelled, const std::string& name) {
  if (auto room = take_room(opened.file.get(), bytes, name); !room) {
    return tl::unexpected(room.error());
  }
  ContentHash hash;
  for (std::uint64_t at = 0; at < bytes; at += kWriteBytes) {
    if (cancelled) return failure(std::errc::operation_canceled, "writing " + name);
    const std::uint64_t length = std::min<std::uint64_t>(kWriteBytes, bytes - at);
    hash.update(image.subspan(at, length));
    // The last block is written with its padding, which is cut off below.
    const auto padded = image.subspan(at, round_up_to_block(length));
    if (auto wrote = write_all(opened, padded, at, name); !wrote) {
      return tl::unexpected(wrote.error());
    }
  }
  if (::ftruncate(opened.file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fdatasync(opened.file.get()) != 0) {
    return failure_from_errno(errno, "bringing " + name + " to the disk");
  }
  return WrittenFile{hash.hex(), opened.direct_io};
}

}  // namespace

Result<void> make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return {};
  if (!error) error = std::make_error_code(std::errc::not_a_directory);
  return failure(error, "making the directory " + path.string());
}

Result<WrittenFile> write_image(const std::filesystem::path& path, std::span<const std::byte> image,
                                std::uint64_t bytes, const std::atomic<bool>& cancelled) {
  DL_CHECK(image.size() >= round_up_to_block(bytes), "the image is padded to whole blocks");
  auto opened = open_new(path);
  if (!opened) return tl::unexpected(opened.error());
  auto written = fill(*opened, image, bytes, cancelled, path.string());
  // Its room is needed for the next attempt, and nobody may take it for a checkpoint.
  if (!written) ::unlink(path.c_str());
  return written;
}

}  // namespace dlaunch::checkpoint
