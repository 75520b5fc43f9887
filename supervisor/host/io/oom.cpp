#include "supervisor/host/io/oom.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "supervisor/host/io/posix.h"

namespace dlaunch::supervisor::host {

bool was_out_of_memory(pid_t pid) {
  constexpr int kRecordsMax = 20'000;
  const Fd log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
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

}  // namespace dlaunch::supervisor::host
