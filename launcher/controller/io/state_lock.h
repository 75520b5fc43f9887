// Only one controller, and only one keeper, at a time owns a job's state directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::launcher::controller {

/// "pid 4242 on login1 (boot 3f…)": of this process.
[[nodiscard]] std::string who_am_i();
[[nodiscard]] std::string host_name();
[[nodiscard]] std::string boot_id();

/// Held until destroyed or until the process dies, whatever way. Works between machines where the
/// file system passes locks on.
class StateLock {
 public:
  /// `file`: "controller.lock" or "keeper.lock". The error says who has it.
  [[nodiscard]] static Result<StateLock> take(const std::string& directory,
                                              const std::string& file);

 private:
  explicit StateLock(FileDescriptor file) : file_(std::move(file)) {}
  FileDescriptor file_;
};

/// Who took the lock last, by what it wrote into the file; it need not live any more.
struct LockOwner {
  std::int64_t pid = 0;
  std::string host;
};
[[nodiscard]] std::optional<LockOwner> lock_owner(const std::string& directory,
                                                  const std::string& file);

/// True while some process, here or on another machine, holds it.
[[nodiscard]] bool is_locked(const std::string& directory, const std::string& file);

constexpr const char* kControllerLock = "controller.lock";
constexpr const char* kKeeperLock = "keeper.lock";

}  // namespace dlaunch::launcher::controller
