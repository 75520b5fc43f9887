#include "launcher/controller/io/state_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fstream>

namespace dlaunch::launcher::controller {
namespace {

struct flock whole_file(short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  return range;
}

std::string content_of(int descriptor) {
  std::array<char, 256> text{};
  const auto count = ::pread(descriptor, text.data(), text.size(), 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "somebody";
}

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

std::string who_am_i() {
  return "pid " + std::to_string(::getpid()) + " on " + host_name() + " (boot " + boot_id() + ")";
}

Result<StateLock> StateLock::take(const std::string& directory, const std::string& file) {
  const auto path = directory + "/" + file;
  FileDescriptor opened(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!opened.is_open()) return failure_from_errno(errno, "opening " + path);
  auto range = whole_file(F_WRLCK);
  // Bound to the open file: neither another descriptor's close nor a fork gives it up.
  if (::fcntl(opened.get(), F_OFD_SETLK, &range) != 0) {
    const int reason = errno;
    if (reason != EAGAIN && reason != EACCES) {
      return failure_from_errno(reason, "locking " + path);
    }
    return failure(std::errc::device_or_resource_busy,
                   "locking " + path + ", which " + content_of(opened.get()) + " holds");
  }
  const auto owner = who_am_i();
  if (::ftruncate(opened.get(), 0) != 0 ||
      ::pwrite(opened.get(), owner.data(), owner.size(), 0) < 0) {
    // The lock holds without its owner's name.
  }
  return StateLock(std::move(opened));
}

std::optional<LockOwner> lock_owner(const std::string& directory, const std::string& file) {
  std::ifstream content(directory + "/" + file);
  LockOwner owner;
  std::string pid_word, on_word;
  content >> pid_word >> owner.pid >> on_word >> owner.host;
  if (!content || pid_word != "pid" || on_word != "on") return std::nullopt;
  return owner;
}

bool is_locked(const std::string& directory, const std::string& file) {
  const FileDescriptor opened(::open((directory + "/" + file).c_str(), O_RDWR | O_CLOEXEC));
  if (!opened.is_open()) return false;
  auto range = whole_file(F_WRLCK);
  return ::fcntl(opened.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

}  // namespace dlaunch::launcher::controller
