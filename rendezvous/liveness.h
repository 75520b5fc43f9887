// Who is silent, and since when: one expiry per watched host, in order.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::rendezvous {

/// A host is heard by a frame that also acknowledges a recent frame of ours, so that a one-way cut
/// is silence in both directions. Each call is O(log hosts), over many; a frame of a host that is
/// not suspect is O(1).
class Liveness {
 public:
  /// `heartbeat`: how far acknowledgements lag behind by themselves.
  Liveness(nanoseconds heartbeat, nanoseconds lost_after)
      : heartbeat_(heartbeat), lost_after_(lost_after) {}

  void watch(HostId host, Instant now);
  void forget(HostId host);
  /// True when the host had been reported by `newly_suspect` and is heard again.
  [[nodiscard]] bool heard(HostId host, Instant now, std::optional<Instant> acknowledged_sent_at);
  /// Its frames and acknowledgements are known to have come, or to come, up to just `until`.
  void quiet_until(HostId host, Instant until);
  /// All watched hosts count as heard now; returns those that had been suspect.
  [[nodiscard]] std::vector<HostId> reset(Instant now);

  /// Silent for more than half of lost_after, each reported once.
  [[nodiscard]] std::vector<HostId> newly_suspect(Instant now);
  /// Silent for lost_after; they stay watched until forgotten.
  [[nodiscard]] std::vector<HostId> expired(Instant now) const;
  /// An expired host that is not given up yet: no deadline is due for it any more.
  void hold(HostId host);
  [[nodiscard]] bool is_held(HostId host) const { return held_.contains(host); }
  [[nodiscard]] bool is_suspect(HostId host) const { return suspects_.contains(host); }
  [[nodiscard]] const std::set<HostId>& suspects() const { return suspects_; }
  [[nodiscard]] std::size_t watched() const { return watched_; }
  [[nodiscard]] bool is_watched(HostId host) const { return find(host) != nullptr; }
  [[nodiscard]] std::optional<Instant> last_heard(HostId host) const;
  /// When the next host can become suspect.
  [[nodiscard]] std::optional<Instant> next_suspect() const;
  /// When the next one that is suspect and not held expires.
  [[nodiscard]] std::optional<Instant> next_expiry() const;

 private:
  struct Seen {
    Instant frame;
    Instant acknowledged;
  };
  struct Host {
    bool watched = false;
    bool suspect = false;
    Seen seen;
    Instant key;  ///< what it stands under in its order
  };
  [[nodiscard]] Instant since(const Seen& seen) const;
  [[nodiscard]] const Host* find(HostId host) const;
  [[nodiscard]] Host* find(HostId host);
  /// Puts it where it belongs now.
  void arrange(HostId id, Host& host);
  void take_out(HostId id, const Host& host);

  nanoseconds heartbeat_;
  nanoseconds lost_after_;
  std::vector<Host> hosts_;  ///< by id
  std::size_t watched_ = 0;
  /// Not suspect, by silent-since or an earlier moment: most frames change nothing here.
  std::set<std::pair<Instant, HostId>> quiet_;
  std::set<std::pair<Instant, HostId>> silent_;  ///< suspect, by silent-since
  std::set<HostId> suspects_;
  std::set<HostId> held_;  ///< suspect and in no order
};

}  // namespace dlaunch::rendezvous
