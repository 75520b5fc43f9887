// Data links that are down: for how long that is ridden out, and who has to be given up.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace dlaunch::supervisor::job {

/// A flap shorter than the window costs nothing: the transport rides it out. A host has several
/// links: its interfaces, and what the probes of other hosts say of the whole path to it.
class LinkWatch {
 public:
  explicit LinkWatch(nanoseconds window) : window_(window) {}

  /// False: that was known.
  bool down(HostId host, const std::string& link, Instant since);
  /// Its host was given up for it before this controller began. `named`: whoever says that it is
  /// up again knows of it.
  void restore(HostId host, const std::string& link, Instant since, bool named);
  /// The host's agent has named all its interfaces that are down: those of `restore` that it has
  /// not named, which are up again.
  [[nodiscard]] std::vector<std::string> take_unnamed(HostId host);
  struct Up {
    bool restored = false;      ///< the host had been given up, and all its links are up now
    bool flap = false;          ///< it was down for less than the window
    nanoseconds down{};         ///< this time
    std::uint32_t flaps = 0;    ///< of this link
    nanoseconds down_in_all{};  ///< of this link
  };
  /// Back again.
  Up up(HostId host, const std::string& link, Instant now);
  /// Its agent is gone, and with it what it said. True: the host had been given up.
  bool forget(HostId host);

  struct Broken {
    HostId host;
    std::string link;
    Instant since;
  };
  /// Those whose time is over; each is told once.
  [[nodiscard]] std::vector<Broken> take_broken(Instant now);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

 private:
  struct Link {
    std::optional<Instant> since;  ///< down
    bool given_up = false;
    bool unnamed = false;  ///< restored, and no word of it since
    std::uint32_t flaps = 0;
    nanoseconds down_in_all{};
  };
  using Links = std::map<std::string, Link>;
  struct Waiting {
    Instant since;
    HostId host;
    std::string link;
    friend auto operator<=>(const Waiting&, const Waiting&) = default;
  };
  [[nodiscard]] static bool is_given_up(const Links& links);
  /// Not down any more.
  void settle(HostId host, const std::string& name, Link& link);

  nanoseconds window_;
  std::map<HostId, Links> hosts_;
  std::set<Waiting> waiting_;  ///< down, and not given up yet
};

}  // namespace dlaunch::supervisor::job
