#include "trainer/comm/io/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

namespace dlaunch::comm {
namespace {

/// Whoever could shorten the memory could end the other side by SIGBUS.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr const char* kName = "dlaunch-link";

/// Looked at before it is opened: in another container the same numbers are another process's
/// file, and some files mind being opened.
bool is_ours(const std::string& path) {
  std::array<char, 64> target{};
  const auto length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return false;
  return std::string_view(target.data(), static_cast<std::size_t>(length))
      .starts_with("/memfd:" + std::string(kName));
}

}  // namespace

Result<SharedMemory> SharedMemory::create(std::size_t bytes) {
  const std::string doing = "making " + std::to_string(bytes) + " bytes of shared memory";
  FileDescriptor descriptor(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.is_open()) return failure_from_errno(errno, doing);
  if (::fchmod(descriptor.get(), S_IRUSR | S_IWUSR) != 0) return failure_from_errno(errno, doing);
  if (::fallocate(descriptor.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return failure_from_errno(errno, doing);
  }
  if (::fcntl(descriptor.get(), F_ADD_SEALS, kSeals) != 0) {
    return failure_from_errno(errno, doing);
  }
  return map(std::move(descriptor), bytes);
}

Result<SharedMemory> SharedMemory::open(std::uint64_t pid, std::uint64_t descriptor,
                                        std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  const std::string doing = "opening the shared memory at " + path;
  if (!is_ours(path)) {
    return failure(std::errc::no_such_file_or_directory,
                   doing + ", which cannot be seen from here (another container?)");
  }
  FileDescriptor opened(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!opened.is_open()) return failure_from_errno(errno, doing);
  struct stat facts {};
  if (::fstat(opened.get(), &facts) != 0) return failure_from_errno(errno, doing);
  const int seals = ::fcntl(opened.get(), F_GET_SEALS);
  const bool right = S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid() &&
                     facts.st_size == static_cast<off_t>(bytes) && seals >= 0 &&
                     (seals & kSeals) == kSeals;
  if (!right) return failure(std::errc::permission_denied, doing + ", which is something else");
  auto mapped = map(std::move(opened), bytes);
  if (mapped) mapped->close_descriptor();
  return mapped;
}

Result<SharedMemory> SharedMemory::map(FileDescriptor descriptor, std::size_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                             descriptor.get(), 0);
  if (place == MAP_FAILED) {
    return failure_from_errno(errno,
                              "mapping " + std::to_string(bytes) + " bytes of shared memory");
  }
  return SharedMemory(std::move(descriptor), {static_cast<std::byte*>(place), bytes});
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace dlaunch::comm
