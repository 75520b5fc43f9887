#include "supervisor/host/io/oom.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/io/file_descriptor.h"
#include "base/io/files.h"

namespace dlaunch::supervisor::host {

bool was_out_of_memory(pid_t pid) {
  constexpr int kRecordsMax = 20'000;
  const FileDescriptor log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log.is_open()) return false;
  const auto mark = "Killed process " + std::to_string(pid) + " ";
  std::array<char, 8192> record{};
  for (int i = 0; i < kRecordsMax; ++i) {
    const auto count = ::read(log.get(), record.data(), record.size());
    if (count < 0 && errno == EPIPE) continue;  // overwritten while it was read
    if (count <= 0) return false;
    const std::string_view text(record.data(), static_cast<std::size_t>(count));
    if (text.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

bool kernel_log_is_readable() {
  return FileDescriptor(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)).is_open();
}

namespace {

/// Of the whole host since its boot, the kills within control groups among them.
std::optional<std::uint64_t> count_kills() {
  const auto text = read_file("/proc/vmstat", 64 * 1024);
  constexpr std::string_view kName = "\noom_kill ";
  const auto found = text ? text->find(kName) : std::string::npos;
  if (found == std::string::npos) return std::nullopt;
  return std::strtoull(text->c_str() + found + kName.size(), nullptr, 10);
}

constexpr std::size_t kLooksKept = 10;  // one second: a big process takes its time to die

}  // namespace

void OutOfMemoryCounter::look() {
  if (const auto count = count_kills()) counts_.push_back(*count);
  if (counts_.size() > kLooksKept) counts_.pop_front();
}

bool OutOfMemoryCounter::rose_lately() const {
  const auto count = count_kills();
  return count && !counts_.empty() && *count > counts_.front();
}

}  // namespace dlaunch::supervisor::host
