#include "launcher/config/io/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dlaunch::launcher::config {
namespace {

Result<std::string> read_open_file(int file, const std::string& path, std::size_t bytes_max) {
  struct stat state = {};
  if (::fstat(file, &state) != 0) return failure_from_errno(errno, "reading " + path);
  if (!S_ISREG(state.st_mode)) {
    return failure(std::error_code(), "reading " + path + ": it is no regular file");
  }
  std::string text;
  std::string part(64 * 1024, '\0');
  while (text.size() <= bytes_max) {
    const auto count = ::read(file, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_from_errno(errno, "reading " + path);
    if (count == 0) return text;
    text.append(part, 0, static_cast<std::size_t>(count));
  }
  return failure(std::errc::file_too_large, "reading " + path + ": it has more than " +
                                                std::to_string(bytes_max) +
                                                " bytes; is it the right file?");
}

}  // namespace

Result<std::string> read_config_file(const std::string& path, std::size_t bytes_max) {
  // O_NONBLOCK: a pipe without a writer must not hold up the command line.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return failure_from_errno(errno, "reading " + path);
  auto text = read_open_file(file, path, bytes_max);
  ::close(file);
  return text;
}

}  // namespace dlaunch::launcher::config
