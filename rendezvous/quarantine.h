// Hosts that fail again and again sit out for a while that doubles.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::rendezvous {

/// Counts what is the host's own fault (lost, link, GPU, NCCL).
class Quarantine {
 public:
  static constexpr std::size_t kFaultsMax = 3;  ///< the third within the window
  static constexpr nanoseconds kWindow = 1h;
  static constexpr nanoseconds kCoolDownFirst = 10min;
  static constexpr nanoseconds kCoolDownMax = 24h;

  /// The end of the quarantine that this fault brings, if it does; `beyond_doubt`: it always does.
  [[nodiscard]] std::optional<Instant> blame(HostId host, Instant now, bool beyond_doubt);

 private:
  struct History {
    std::deque<Instant> faults;
    nanoseconds cool_down = kCoolDownFirst;
  };
  std::map<HostId, History> histories_;
};

}  // namespace dlaunch::rendezvous
