#include "launcher/controller/io/process_io.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "base/io/clock.h"

namespace dlaunch::launcher::controller {
namespace {
// Others may hold the pipe open: its end says nothing.
constexpr char kReportEnd = '\0';
// The GNU C library's, since 2.35; others do not look at it.
constexpr const char* kAllocatorVariable = "GLIBC_TUNABLES";
constexpr const char* kLargePages = "glibc.malloc.hugetlb=1";
}  // namespace

FileDescriptor take_descriptor(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return FileDescriptor();
  const std::string_view digits(text);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  const bool whole = error == std::errc() && end == digits.end() && number >= 0;
  ::unsetenv(variable);
  if (!whole || ::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return FileDescriptor();
  return FileDescriptor(number);
}

void prefer_large_pages() { ::setenv(kAllocatorVariable, kLargePages, 0); }

void forget_large_pages() {
  const char* present = std::getenv(kAllocatorVariable);
  if (present != nullptr && std::string_view(present) == kLargePages) {
    ::unsetenv(kAllocatorVariable);
  }
}

void write_report(int descriptor, const StartReport& report) {
  // An error: nobody waits any more.
  (void)write_all(descriptor, std::to_string(report.code) + "\n" + report.sentence + kReportEnd);
}

Result<StartReport> read_report(int descriptor, int milliseconds_max) {
  std::string text;
  const auto end = monotonic_now() + milliseconds(milliseconds_max);
  while (text.empty() || text.back() != kReportEnd) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - monotonic_now()).count();
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&entry, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return failure(std::errc::timed_out, "waiting for the controller to be up");
    std::array<char, 4096> bytes{};
    const auto count = ::read(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  const auto line_end = text.find('\n');
  StartReport report;
  if (line_end == std::string::npos || text.back() != kReportEnd) {
    return failure(std::error_code(), "the controller ended before it was up");
  }
  const auto [last, error] = std::from_chars(text.data(), text.data() + line_end, report.code);
  if (error != std::errc()) return failure(std::errc::bad_message, "reading the start's report");
  report.sentence = text.substr(line_end + 1, text.size() - line_end - 2);
  return report;
}

}  // namespace dlaunch::launcher::controller
