// A child process with pipes, for programs that are asked something: `ssh -G`, /bin/sh, a proxy.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/io/file_descriptor.h"
#include "base/result.h"
#include "launcher/io/deadline.h"

namespace dlaunch::launcher::io {

/// Killed and reaped at the latest by the destructor. Its own session, so that Ctrl-C of a terminal
/// does not reach it.
class Child {
 public:
  enum class Wiring {
    pipes,       ///< stdin, stdout and stderr
    one_socket,  ///< stdin and stdout are one socket (`input`); stderr is a pipe
  };
  [[nodiscard]] static Result<Child> start(const std::vector<std::string>& argv, Wiring wiring);

  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  FileDescriptor input;   ///< what we write to
  FileDescriptor output;  ///< what we read from; empty with one_socket
  FileDescriptor errors;

  /// Its exit code once it ended, 128 + signal, or -1 when the deadline is over.
  [[nodiscard]] int wait(const Deadline& deadline);

 private:
  Child() = default;
  pid_t pid_ = -1;
};

struct Answer {
  int code = 0;
  std::string output;
  std::string errors;
};
/// Runs a program to its end; more than `bytes_max` of output is a failure.
[[nodiscard]] Result<Answer> ask(const std::vector<std::string>& argv, const Deadline& deadline,
                                 std::size_t bytes_max);

}  // namespace dlaunch::launcher::io
