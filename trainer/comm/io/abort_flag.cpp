#include "trainer/comm/io/abort_flag.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "base/check.h"

namespace dlaunch::comm {

AbortFlag::AbortFlag() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DL_CHECK(event_.is_open(), "no eventfd could be made: too many open files in this process");
}

void AbortFlag::set(std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    if (set_.load(std::memory_order_relaxed)) return;
    reason_ = std::move(reason);
    set_.store(true, std::memory_order_release);
  }
  const std::uint64_t one = 1;
  const auto written = ::write(event_.get(), &one, sizeof one);
  DL_CHECK(written == sizeof one, "an eventfd takes its first count");
}

std::string AbortFlag::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace dlaunch::comm
