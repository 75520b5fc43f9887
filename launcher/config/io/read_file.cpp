#include "launcher/config/io/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/io/file_descriptor.h"

namespace dlaunch::launcher::config {

Result<std::string> read_config_file(const std::string& path, std::size_t bytes_max) {
  // O_NONBLOCK: a pipe without a writer must not hold up the command line.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat state = {};
  if (!file.is_open() || ::fstat(file.get(), &state) != 0) {
    return failure_from_errno(errno, "reading " + path);
  }
  if (!S_ISREG(state.st_mode)) {
    return failure(std::error_code(), "reading " + path + ": it is no regular file");
  }
  auto text = read_all(file.get(), bytes_max + 1, path);
  if (text && text->size() > bytes_max) {
    return failure(std::errc::file_too_large, "reading " + path + ": it has more than " +
                                                  std::to_string(bytes_max) +
                                                  " bytes; is it the right file?");
  }
  return text;
}

}  // namespace dlaunch::launcher::config
