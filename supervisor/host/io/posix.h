// Descriptors that close themselves, and whole reads and writes.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace dlaunch::supervisor::host {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int value) : value_(value) {}
  Fd(Fd&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool is_open() const { return value_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(value_, -1); }
  void reset() {
    if (value_ >= 0) ::close(value_);
    value_ = -1;
  }

 private:
  int value_ = -1;
};

struct Pipe {
  Fd read, write;
};
/// Both ends close on exec.
[[nodiscard]] Result<Pipe> make_pipe();

[[nodiscard]] Result<void> write_all(int descriptor, std::string_view bytes);
/// At most `bytes_max`; what is beyond is not read.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t bytes_max);
/// Temporary name, fsync, rename, fsync of the directory: the old content or the new, never a part.
[[nodiscard]] Result<void> replace_file(const std::string& path, std::string_view content);
[[nodiscard]] Result<void> sync_directory(const std::string& path);

}  // namespace dlaunch::supervisor::host
