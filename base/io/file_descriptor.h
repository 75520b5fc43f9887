// The owner of a file descriptor, and whole reads and writes through one.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace dlaunch {

/// Closed at the end, whatever way leads there. Not for several threads.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over what `open` and its kind answered; a negative number: owns nothing.
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    reset(std::exchange(other.number_, -1));
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// It is the caller's from now on.
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  /// Closes what it owns and takes over `number`.
  void reset(int number = -1) {
    const int old = std::exchange(number_, number);
    if (old >= 0) ::close(old);
  }

 private:
  int number_ = -1;
};

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};
/// Both ends close on exec.
[[nodiscard]] Result<Pipe> make_pipe();

[[nodiscard]] Result<void> write_all(int descriptor, std::string_view bytes);
/// To the end, at most `bytes_max`; what is beyond is not read. `name`: for the error.
[[nodiscard]] Result<std::string> read_all(int descriptor, std::size_t bytes_max,
                                           const std::string& name);

}  // namespace dlaunch
