// Whether the controller is heard over the present connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/time.h"

namespace dlaunch::supervisor::host {

/// Heard is a frame that acknowledges a recent one of ours: a path that is cut one way is silent.
/// The mirror image of what the controller counts, on this host's clock.
class ControlPath {
 public:
  /// As the controller's welcome says; without a call nothing is ever silent.
  void set(nanoseconds heartbeat, nanoseconds lost_after);
  /// A connection is up; what was of the one before is over.
  void opened(Instant now);
  void closed();
  void sent(std::uint64_t number, Instant now);
  void heard(std::uint64_t acknowledged, Instant now);
  /// This process did not run: counting begins anew.
  void stalled(Instant now);

  /// For half of lost_after: time to look for another way before the controller gives this host up.
  [[nodiscard]] bool silent(Instant now) const;
  /// When it becomes silent unless something is heard; nullopt: no connection.
  [[nodiscard]] std::optional<Instant> silent_at() const;

 private:
  // A frame a millisecond, and none of them acknowledged within the longest lost_after: no more.
  static constexpr std::size_t kOutstandingMax = 1024;

  nanoseconds heartbeat_{};
  nanoseconds lost_after_{};
  bool open_ = false;
  Instant frame_;
  Instant acknowledged_;
  std::map<std::uint64_t, Instant> outstanding_;
};

}  // namespace dlaunch::supervisor::host
