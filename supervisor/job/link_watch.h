// Data links that are down: for how long that is ridden out, and who has to be given up.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::supervisor::job {

/// A flap shorter than the window costs nothing: the transport rides it out.
class LinkWatch {
 public:
  explicit LinkWatch(nanoseconds window) : window_(window) {}

  void down(HostId host, std::string interface, Instant since);
  /// Back again; true: the host had been given up.
  bool up(HostId host);
  /// Its agent is gone, and with it what it said.
  void forget(HostId host) { links_.erase(host); }

  struct Broken {
    HostId host;
    std::string interface;
    Instant since;
  };
  /// Those whose time is over; each is told once.
  [[nodiscard]] std::vector<Broken> take_broken(Instant now);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  struct Link {
    std::string interface;
    Instant since;
    bool given_up = false;
  };
  nanoseconds window_;
  std::map<HostId, Link> links_;
};

}  // namespace dlaunch::supervisor::job
