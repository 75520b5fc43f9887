#include "base/io/file_descriptor.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace dlaunch {

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure_from_errno(errno, "making a pipe");
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
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

Result<std::string> read_all(int descriptor, std::size_t bytes_max, const std::string& name) {
  std::string content;
  std::array<char, 16 * 1024> bytes{};
  while (content.size() < bytes_max) {
    const auto wanted = std::min(bytes.size(), bytes_max - content.size());
    const auto count = ::read(descriptor, bytes.data(), wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "reading " + name);
    if (count == 0) break;
    content.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return content;
}

}  // namespace dlaunch
