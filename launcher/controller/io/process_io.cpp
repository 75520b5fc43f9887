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
#include <utility>

#include "base/io/clock.h"

namespace dlaunch::launcher::controller {
namespace {
// Others may hold the pipe open: its end says nothing.
constexpr char kReportEnd = '\0';
}  // namespace

std::optional<int> take_descriptor(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  const bool whole = error == std::errc() && end == digits.end() && number >= 0;
  ::unsetenv(variable);
  if (!whole || ::fcntl(number, F_SETFD, FD_CLOEXEC) != 0) return std::nullopt;
  return number;
}

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}
Descriptor::~Descriptor() { close(); }
void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failure_from_errno(errno, "making a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

void write_report(int descriptor, const StartReport& report) {
  const auto text = std::to_string(report.code) + "\n" + report.sentence + kReportEnd;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto count = ::write(descriptor, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // nobody waits any more
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
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
