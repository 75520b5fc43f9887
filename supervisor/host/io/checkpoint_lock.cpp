#include "supervisor/host/io/checkpoint_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <random>

#include "base/io/clock.h"
#include "base/io/file_descriptor.h"
#include "base/io/files.h"

namespace dlaunch::supervisor::host {
namespace {

constexpr const char* kLock = "/.dlaunch-lock";
constexpr std::size_t kHolderBytesMax = 4096;
constexpr nanoseconds kTakeLimit = 5s;  // others take it over, or let it go, at this moment
constexpr useconds_t kLookMicroseconds = 10'000;
constexpr int kMarksMax = 8;  // so many agents in a row died just while they took it over

/// One writing or renewal of a lock file.
struct Instance {
  ino_t inode = 0;
  nanoseconds written{};  // by the file system's clock
  std::string holder;

  friend bool operator==(const Instance&, const Instance&) = default;
};

nanoseconds time_of(const struct stat& status) {
  return seconds(status.st_mtim.tv_sec) + nanoseconds(status.st_mtim.tv_nsec);
}

std::optional<nanoseconds> written_at(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? std::optional(time_of(status)) : std::nullopt;
}

std::optional<std::string> read_whole(int file) {
  std::array<char, kHolderBytesMax> bytes{};
  const auto count = ::pread(file, bytes.data(), bytes.size(), 0);
  if (count < 0) return std::nullopt;
  return std::string(bytes.data(), static_cast<std::size_t>(count));
}

/// Nothing: there is none.
std::optional<Instance> look(const std::string& lock) {
  const FileDescriptor file(::open(lock.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return std::nullopt;
  const auto holder = read_whole(file.get());
  return holder ? std::optional(Instance{status.st_ino, time_of(status), *holder}) : std::nullopt;
}

std::string unique_name(const std::string& directory) {
  std::random_device dice;
  return directory + kLock + "-" + std::to_string(::getpid()) + "-" + std::to_string(dice()) +
         std::to_string(dice());
}

Result<FileDescriptor> create(const std::string& path, std::string_view content) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) return failure_from_errno(errno, "creating " + path);
  if (const auto done = write_all(file.get(), content); !done) {
    return failure(done.error().code, "writing " + path);
  }
  if (::fsync(file.get()) != 0) return failure_from_errno(errno, "syncing " + path);
  return file;
}

/// One job's try; its own file is complete before it gets the lock's name.
class Taking {
 public:
  Taking(const std::string& directory, const std::string& job, nanoseconds stale_after)
      : lock_(directory + kLock),
        own_(unique_name(directory)),
        job_(job),
        stale_after_(stale_after) {}
  Taking(const Taking&) = delete;
  Taking& operator=(const Taking&) = delete;
  ~Taking() { ::unlink(own_.c_str()); }

  Result<std::optional<std::string>> take() {
    if (const auto made = create(own_, job_); !made) return tl::unexpected(made.error());
    now_ = written_at(own_).value_or(nanoseconds());
    const auto due = monotonic_now() + kTakeLimit;
    while (true) {
      const auto created = put_in_place();
      if (!created) return tl::unexpected(created.error());
      if (*created) return std::nullopt;
      const auto found = look(lock_);
      if (found && found->holder == job_) {
        if (const auto kept = renew_lock(lock_.substr(0, lock_.rfind('/')), job_); kept) {
          return std::nullopt;
        }
      }
      if (found && now_ - found->written < stale_after_) return found->holder;
      if (found && take_over(*found)) return std::nullopt;
      if (monotonic_now() > due) return found ? found->holder : std::string();
      ::usleep(kLookMicroseconds);
    }
  }

 private:
  /// False: the name is taken.
  Result<bool> put_in_place() {
    if (::link(own_.c_str(), lock_.c_str()) == 0) return true;
    const int number = errno;
    struct stat status {};
    // A network file system may have done it and lost the answer.
    if (::stat(own_.c_str(), &status) == 0 && status.st_nlink > 1) return true;
    if (number == EEXIST) return false;
    if (number != EPERM && number != EOPNOTSUPP && number != ENOSYS && number != EMLINK) {
      return failure_from_errno(number, "linking " + lock_);
    }
    // There are no second names here; this one is empty for a moment, but ours alone.
    const auto made = create(lock_, job_);
    if (made) return true;
    if (made.error().code == std::errc::file_exists) return false;
    return tl::unexpected(made.error());
  }

  /// Only who has made the mark for just this stale instance may replace it, and looks again first:
  /// a job that took it a moment ago is not pushed out.
  bool take_over(const Instance& stale) {
    const auto mark = lock_ + "-over-" + std::to_string(stale.inode) + "-" +
                      std::to_string(stale.written.count()) + "-";
    for (int number = 0; number < kMarksMax; ++number) {
      const auto path = mark + std::to_string(number);
      if (create(path, job_)) {
        const bool ours = look(lock_) == stale && ::rename(own_.c_str(), lock_.c_str()) == 0;
        for (int old = 0; old <= number; ++old) ::unlink((mark + std::to_string(old)).c_str());
        return ours;
      }
      const auto made = written_at(path);
      if (!made || now_ - *made < stale_after_) return false;  // another is about to do it
    }
    return false;
  }

  std::string lock_;
  std::string own_;
  std::string job_;
  nanoseconds stale_after_;
  nanoseconds now_{};
};

}  // namespace

Result<std::optional<std::string>> take_lock(const std::string& directory, const std::string& job,
                                             nanoseconds stale_after) {
  return Taking(directory, job, stale_after).take();
}

/// Touches the very file that was read: a lock that another has put in its place stays as it is.
Result<void> renew_lock(const std::string& directory, const std::string& job) {
  const auto lock = directory + kLock;
  const FileDescriptor file(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open() && errno == ENOENT) {
    const auto taken = take_lock(directory, job, nanoseconds::max());
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) return {};
    return failure(std::errc::device_or_resource_busy,
                   "renewing the lock of " + directory + ", which the job " + **taken + " took");
  }
  if (!file.is_open()) return failure_from_errno(errno, "opening " + lock);
  const auto holder = read_whole(file.get());
  if (holder && *holder != job) {
    return failure(std::errc::device_or_resource_busy,
                   "renewing the lock of " + directory + ", which the job " + *holder + " took");
  }
  if (::futimens(file.get(), nullptr) != 0) return failure_from_errno(errno, "renewing " + lock);
  return {};
}

void release_lock(const std::string& directory, const std::string& job) {
  const auto found = look(directory + kLock);
  if (found && found->holder == job) ::unlink((directory + kLock).c_str());
}

}  // namespace dlaunch::supervisor::host
