// A point in time that blocking calls of the planter share.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace dlaunch::launcher::io {

class Deadline {
 public:
  explicit Deadline(nanoseconds from_now)
      : at_(std::chrono::steady_clock::now() + from_now), length_(from_now) {}

  /// Zero when it is over.
  [[nodiscard]] nanoseconds left() const {
    return std::max<nanoseconds>(at_ - std::chrono::steady_clock::now(), 0ns);
  }
  /// For poll(2) and libssh; rounded up, so that 0 means that it is over.
  [[nodiscard]] int left_milliseconds() const {
    return static_cast<int>(std::chrono::ceil<milliseconds>(left()).count());
  }
  [[nodiscard]] bool over() const { return left() == 0ns; }
  [[nodiscard]] nanoseconds length() const { return length_; }

 private:
  Instant at_;
  nanoseconds length_;
};

}  // namespace dlaunch::launcher::io
