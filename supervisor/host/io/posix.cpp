#include "supervisor/host/io/posix.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>

namespace dlaunch::supervisor::host {

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure_from_errno(errno, "making a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<void> write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "writing");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t bytes_max) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return failure_from_errno(errno, "opening " + path);
  std::string content;
  std::array<char, 16 * 1024> bytes{};
  while (content.size() < bytes_max) {
    const auto count = ::read(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "reading " + path);
    if (count == 0) break;
    content.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (content.size() > bytes_max) content.resize(bytes_max);
  return content;
}

Result<void> sync_directory(const std::string& path) {
  const Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return failure_from_errno(errno, "opening " + path);
  if (::fsync(directory.get()) != 0) return failure_from_errno(errno, "syncing " + path);
  return {};
}

Result<void> replace_file(const std::string& path, std::string_view content) {
  const auto part = path + ".tmp";
  {
    const Fd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.is_open()) return failure_from_errno(errno, "creating " + part);
    if (const auto written = write_all(file.get(), content); !written) {
      return failure(written.error().code, "writing " + part);
    }
    if (::fsync(file.get()) != 0) return failure_from_errno(errno, "syncing " + part);
  }
  if (::rename(part.c_str(), path.c_str()) != 0)
    return failure_from_errno(errno, "renaming " + part);
  const auto slash = path.rfind('/');
  return sync_directory(slash == std::string::npos ? "." : path.substr(0, slash));
}

}  // namespace dlaunch::supervisor::host
